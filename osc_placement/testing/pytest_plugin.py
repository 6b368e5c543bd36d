# SPDX-License-Identifier: Apache-2.0
"""Pytest fixtures for the reference server; pytest loads this module by entry point.

``placement_server`` is a running Placement with a URL, empty and in memory;
``placement_client`` is this package's client of it. A marker sets its content and any other
option of ``testing.LoopbackPlacement``::

    @pytest.mark.placement(load="12-hosts")
    def test_something(placement_server): ...

Every pytest run in an environment with this package imports this module, so it imports the
server only in the fixtures.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.testing import service

MARKER = "placement"
URL_OPTION, TOKEN_OPTION = "--placement-url", "--placement-token"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of ``osc_placement.testing.conformance``."""
    group = parser.getgroup("osc-placement")
    group.addoption(
        URL_OPTION,
        help="the empty Placement that osc_placement.testing.conformance tests, and empties again",
    )
    group.addoption(
        TOKEN_OPTION, default="admin", help="the token of its requests (default: %(default)s)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, for ``--strict-markers``."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(load=None, max_version=None, **options): the content of placement_server (the"
        " name of a sample cloud, a Cloud, or a document), its last microversion, and options of"
        " osc_placement.server.create_app",
    )


@pytest.fixture
def placement_server(request: pytest.FixtureRequest) -> Iterator[service.LoopbackPlacement]:
    """The reference server on a port of 127.0.0.1, for this test alone."""
    from osc_placement.testing import service

    marker = request.node.get_closest_marker(MARKER)
    with service.LoopbackPlacement(**(_options(marker) if marker else {})) as server:
        yield server


@pytest.fixture
def placement_client(placement_server: service.LoopbackPlacement) -> api.Client:
    """A client of ``placement_server`` with the roles admin and service."""
    return placement_server.client()


def _options(marker: pytest.Mark) -> dict[str, Any]:
    """The options of a marker. Errors: pytest's UsageError for others than LoopbackPlacement's."""
    from osc_placement import server

    allowed = ["load", "max_version", *inspect.signature(server.create_app).parameters]
    allowed = list(dict.fromkeys(allowed))
    wrong = [repr(value) for value in marker.args]
    wrong += [name for name in marker.kwargs if name not in allowed]
    if wrong:
        raise pytest.UsageError(
            f"the marker {MARKER} has {', '.join(wrong)}: its arguments have names, and the names"
            f" are {', '.join(allowed)}, as in @pytest.mark.{MARKER}(load='12-hosts')"
        )
    return dict(marker.kwargs)
