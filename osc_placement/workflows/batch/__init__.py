"""Batch operations: one request about inventories, traits or aggregates of many providers."""
