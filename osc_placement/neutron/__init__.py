"""Neutron: ports with resource requests, and the network API calls."""
