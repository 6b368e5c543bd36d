"""The commands, against the embedded server in process, on a port, and openstack-placement."""

from __future__ import annotations

import pytest

from tests.support.peer.fixtures import openstack, real_placement, target

__all__ = ["openstack", "real_placement", "target"]


@pytest.fixture
def first_generation() -> int:
    """Nothing may count on a generation that begins at 0."""
    return 7
