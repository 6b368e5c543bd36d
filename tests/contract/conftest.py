"""The HTTP contract, on the embedded server and on openstack-placement alike."""

from __future__ import annotations

from tests.support.peer.fixtures import first_generation, real_placement, target

__all__ = ["first_generation", "real_placement", "target"]
