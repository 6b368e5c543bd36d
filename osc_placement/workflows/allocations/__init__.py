"""Allocations compared with nova: what heal and audit share."""
