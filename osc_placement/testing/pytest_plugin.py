"""Pytest fixtures around the embedded server; pytest loads this by entry point."""
