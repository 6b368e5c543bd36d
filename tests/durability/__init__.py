"""Servers that are killed during writes, and the state of their files."""
