"""Allocation candidates judged from outside: random clouds, an oracle, and the real service."""
