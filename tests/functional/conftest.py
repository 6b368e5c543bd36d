"""The commands, against the embedded server in process, on a port, and openstack-placement."""

from __future__ import annotations

from tests.peer.fixtures import openstack, real_placement, target

__all__ = ["openstack", "real_placement", "target"]
