"""The `placement snapshot` commands."""
