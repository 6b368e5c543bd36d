"""Pytest fixtures around the embedded server; pytest loads this by entry point.

``placement_server`` is a running Placement with a URL, empty and in memory;
``placement_client`` this package's client of it. A test chooses what is in it, and any
other option of ``osc_placement.server.create_app``, with a marker::

    @pytest.mark.placement(load="12-hosts")
    def test_something(placement_server): ...

Imported in every pytest run of an environment that has this package: nothing heavy is
imported before a fixture is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.testing import service

MARKER = "placement"


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, for ``--strict-markers``."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(load=None, **options): what placement_server is filled with (a sample"
        " cloud's name or a document), and options of osc_placement.server.create_app",
    )


@pytest.fixture
def placement_server(request: pytest.FixtureRequest) -> Iterator[service.LoopbackPlacement]:
    """The embedded Placement on a port of 127.0.0.1, for this test alone."""
    from osc_placement.testing import service

    marker = request.node.get_closest_marker(MARKER)
    options: dict[str, Any] = marker.kwargs if marker is not None else {}
    with service.LoopbackPlacement(**options) as server:
        yield server


@pytest.fixture
def placement_client(placement_server: service.LoopbackPlacement) -> api.Client:
    """The client of ``placement_server``, as an identity that may do everything."""
    return placement_server.client()
