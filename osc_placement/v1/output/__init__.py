"""How answers are printed: rows, cells, tables, summaries, progress and the help format."""
