"""Commands about allocations and consumers, with heal and audit."""
