from __future__ import annotations

import types
from typing import Any

import pytest

from osc_placement.client import compute, errors


def connection(*found: Any, error: Exception | None = None) -> Any:
    def aggregates() -> Any:
        if error:
            raise error
        return iter(found)

    return types.SimpleNamespace(compute=types.SimpleNamespace(aggregates=aggregates))


def test_a_host_aggregate_has_an_id_a_name_and_the_uuid_of_its_mirror() -> None:
    found = types.SimpleNamespace(id=7, name="racks", uuid="u")
    assert compute.host_aggregates(connection(found)) == [compute.HostAggregate("7", "racks", "u")]


def test_what_nova_refuses_is_told_in_its_words() -> None:
    with pytest.raises(errors.PlacementError, match="no such endpoint"):
        compute.host_aggregates(connection(error=RuntimeError("no such endpoint")))


def test_a_nova_that_tells_no_uuids_is_too_old() -> None:
    found = types.SimpleNamespace(id=7, name="racks", uuid=None)
    with pytest.raises(errors.PlacementError, match=r"2\.41"):
        compute.host_aggregates(connection(found))
