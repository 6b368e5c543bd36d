"""Nova: its values, the compute API calls, and its flavor and pinning rules."""
