"""The server under many writers at once."""
