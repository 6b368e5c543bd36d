"""Options that several commands share, and the parsers of their values."""
