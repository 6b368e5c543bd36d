"""The embedded Placement as an object, and as pytest fixtures."""

from __future__ import annotations

import pytest
import requests

from osc_placement import microversion
from osc_placement.client import api
from osc_placement.server.store import errors
from osc_placement.testing import service

BOTH = pytest.mark.parametrize("kind", [service.InProcessPlacement, service.LoopbackPlacement])


def provider_names(client: api.Client) -> set[str]:
    return {provider.name for provider in client.list_providers()}


@BOTH
def test_it_answers_when_start_returns(kind: type[service.EmbeddedPlacement]) -> None:
    placement = kind().start()
    try:
        answer = placement.session().get(f"{placement.url}/resource_providers")
        assert (answer.status_code, answer.json()) == (200, {"resource_providers": []})
    finally:
        placement.stop()


@BOTH
def test_it_begins_with_a_sample_cloud(kind: type[service.EmbeddedPlacement]) -> None:
    with kind(load="12-hosts") as placement:
        assert "cmp-0001.lab.example.org" in provider_names(placement.client())


@BOTH
def test_a_client_can_be_pinned(kind: type[service.EmbeddedPlacement]) -> None:
    version = microversion.Microversion(1, 14)
    with kind() as placement:
        assert placement.client(version).microversion == version
        assert placement.client().microversion == microversion.MAXIMUM


@BOTH
def test_two_stand_side_by_side(kind: type[service.EmbeddedPlacement]) -> None:
    with kind() as one, kind() as other:
        one.client().create_provider("only here")
        assert provider_names(one.client()) == {"only here"}
        assert provider_names(other.client()) == set()


@BOTH
def test_starting_twice_is_refused_and_stopping_twice_is_not(
    kind: type[service.EmbeddedPlacement],
) -> None:
    placement = kind().start()
    with pytest.raises(RuntimeError, match="running already"):
        placement.start()
    placement.stop()
    placement.stop()


@BOTH
def test_it_can_be_started_again_after_a_stop(kind: type[service.EmbeddedPlacement]) -> None:
    placement = kind()
    with placement:
        placement.client().create_provider("of the first run")
    with placement:
        assert provider_names(placement.client()) == set()


@BOTH
def test_before_the_start_nothing_can_be_asked(kind: type[service.EmbeddedPlacement]) -> None:
    with pytest.raises(RuntimeError, match="call start"):
        kind().session() if kind is service.InProcessPlacement else kind().url


@BOTH
def test_what_start_refuses_leaves_nothing_behind(kind: type[service.EmbeddedPlacement]) -> None:
    placement = kind(load={"providers": {}})
    with pytest.raises(errors.DocumentInvalid):
        placement.start()
    placement.stop()


def test_after_a_stop_nobody_listens() -> None:
    with service.LoopbackPlacement() as placement:
        url = placement.url
        assert requests.get(url, timeout=5).status_code == 200
    with pytest.raises(requests.ConnectionError):
        requests.get(url, timeout=5)


def test_the_fixture_gives_an_empty_server(placement_server: service.LoopbackPlacement) -> None:
    answer = requests.get(placement_server.url, timeout=5)
    assert answer.json()["versions"][0]["max_version"] == str(microversion.MAXIMUM)


@pytest.mark.placement(load="12-hosts")
def test_the_marker_fills_it(placement_client: api.Client) -> None:
    assert len(provider_names(placement_client)) == 22
