"""Audit: find wrong allocations, each with a reason code, and repair them."""
