"""Allocation candidates checked from outside: random clouds, brute force, the real service."""
