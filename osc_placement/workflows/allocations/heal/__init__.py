"""Heal: create the allocations that nova would have created."""
