# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of workflows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from osc_placement.testing import service


@pytest.fixture
def placement() -> Iterator[service.InProcessPlacement]:
    """An empty server in this process."""
    with service.InProcessPlacement() as started:
        yield started
