"""The reference server: a complete Placement API for tests, rehearsal and labs.

``create_app`` makes a WSGI callable; ``osc-placement-server`` serves one. It is no
replacement of the production service: where a cloud outgrows one machine, it runs
OpenStack Placement on its database cluster.
"""

from osc_placement.server.app import App, create_app

__all__ = ["App", "create_app"]
