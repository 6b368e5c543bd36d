"""Servers in their own processes: openstack-placement and the embedded server."""
