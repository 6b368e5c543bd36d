"""The exact search: which requests fit together, and where each of them goes."""
