# SPDX-License-Identifier: Apache-2.0
"""How answers are printed: rows, cells, tables, summaries, progress and the help format."""
