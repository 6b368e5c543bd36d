"""How fast the reference server is, beside openstack-placement and at a large cloud's size.

``tools/benchmark`` runs it; the figures stand in doc/source/server/performance.rst.
"""
