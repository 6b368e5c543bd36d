"""The server with many concurrent writers."""
