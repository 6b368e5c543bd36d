"""Servers that are killed in the middle of writes, and what is then in their files."""
