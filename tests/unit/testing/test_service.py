# SPDX-License-Identifier: Apache-2.0
"""The embedded servers and the pytest fixtures."""

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
def test_the_server_answers_after_start(kind: type[service.EmbeddedPlacement]) -> None:
    placement = kind().start()
    try:
        answer = placement.session().get(f"{placement.url}/resource_providers")
        assert (answer.status_code, answer.json()) == (200, {"resource_providers": []})
    finally:
        placement.stop()


@BOTH
def test_a_server_can_load_a_sample_cloud(kind: type[service.EmbeddedPlacement]) -> None:
    with kind(load="12-hosts") as placement:
        assert "cmp-0001.lab.example.org" in provider_names(placement.client())


@BOTH
def test_a_client_can_be_pinned(kind: type[service.EmbeddedPlacement]) -> None:
    version = microversion.Microversion(1, 14)
    with kind() as placement:
        assert placement.client(version).microversion == version
        assert placement.client().microversion == microversion.MAXIMUM


@BOTH
def test_two_servers_have_separate_states(kind: type[service.EmbeddedPlacement]) -> None:
    with kind() as one, kind() as other:
        one.client().create_provider("only here")
        assert provider_names(one.client()) == {"only here"}
        assert provider_names(other.client()) == set()


@BOTH
def test_a_second_start_is_refused_and_a_second_stop_has_no_effect(
    kind: type[service.EmbeddedPlacement],
) -> None:
    placement = kind().start()
    with pytest.raises(RuntimeError, match="running already"):
        placement.start()
    placement.stop()
    placement.stop()


@BOTH
def test_a_server_can_be_started_again(kind: type[service.EmbeddedPlacement]) -> None:
    placement = kind()
    with placement:
        placement.client().create_provider("of the first run")
    with placement:
        assert provider_names(placement.client()) == set()


@BOTH
def test_a_server_that_is_not_running_has_no_url_and_no_client(
    kind: type[service.EmbeddedPlacement],
) -> None:
    with pytest.raises(RuntimeError, match="call start"):
        kind().session() if kind is service.InProcessPlacement else kind().url


@BOTH
def test_a_failed_start_leaves_no_thread_or_port(kind: type[service.EmbeddedPlacement]) -> None:
    placement = kind(load={"providers": {}})
    with pytest.raises(errors.DocumentInvalid):
        placement.start()
    placement.stop()


def test_after_a_stop_the_port_is_closed() -> None:
    with service.LoopbackPlacement() as placement:
        url = placement.url
        assert requests.get(url, timeout=5).status_code == 200
    with pytest.raises(requests.ConnectionError):
        requests.get(url, timeout=5)


def test_the_fixture_is_an_empty_server(placement_server: service.LoopbackPlacement) -> None:
    answer = requests.get(placement_server.url, timeout=5)
    assert answer.json()["versions"][0]["max_version"] == str(microversion.MAXIMUM)


@pytest.mark.placement(load="12-hosts")
def test_the_marker_loads_a_sample_cloud(placement_client: api.Client) -> None:
    assert len(provider_names(placement_client)) == 22
