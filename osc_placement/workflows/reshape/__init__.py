"""Reshape: move inventories between the providers of a tree, with their allocations."""
