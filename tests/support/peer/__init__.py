"""Servers in processes of their own: the real openstack-placement, and ours beside it."""
