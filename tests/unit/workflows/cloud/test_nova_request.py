# SPDX-License-Identifier: Apache-2.0
"""Nova's request for a server, read from nova, neutron and glance."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api, flavor, flavors, values
from osc_placement.scheduling import nova_options, traits
from osc_placement.scheduling.case import Case
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.testing import nova as kit, service
from osc_placement.workflows.cloud import cases, nova_request, source
from osc_placement.workflows.cloud.context import ReadContext
from tests.support.fake_neutron import FakeNeutron

SERVER, IMAGE = "00000000-0000-4000-8000-0000000000c1", "00000000-0000-4000-8000-0000000000d1"


class Glance:
    """Answers 404 for an image by ID, and no image for a name; or refuses every request."""

    def __init__(self, status: int) -> None:
        self._status = status

    def ask(self, path: str) -> Any:
        if "?name=" in path:
            return {"images": []}
        raise flavors.GlanceRefused(self._status, "no", url=path)


def recorded(image: Any = None, *volumes: str) -> api.RecordedNova:
    """Nova with a server, from an image unless another value is given, and with these volumes."""
    size = {"vcpus": 2, "ram": 16, "disk": 10, "flavor": "small"}
    place = {"host": "h", "node": "h", "image": {"id": IMAGE} if image is None else image}
    server = kit.server(SERVER, name="web", project="p", user="u", **size, **place)
    del server["pinned_availability_zone"]
    server["os-extended-volumes:volumes_attached"] = [{"id": name} for name in volumes]
    answers = {
        **kit.answers(aggregates=[]),
        f"GET /v2.1/servers/detail?uuid={SERVER}": {"servers": [server]},
        "GET /v2.0/ports": {"ports": []},
    }
    return api.RecordedNova(answers, "nova")


def opened(nova: api.RecordedNova, status: int = 404) -> nova_request.RequestServices:
    """The services of this nova; glance answers with ``status``."""
    return nova_request.RequestServices(
        nova,
        lambda: neutron_api.RecordedNeutron(nova.recorded, nova.source),
        lambda: Glance(status),
        lambda _: frozenset(),
    )


@pytest.mark.parametrize(
    ("status", "unknown"),
    [
        (404, f"the properties of image {IMAGE}: glance has it no more"),
        (403, f"the properties of image {IMAGE}: missing permission in glance: by default"),
    ],
)
def test_a_server_without_its_image_has_a_request_with_doubts(status: int, unknown: str) -> None:
    nova = recorded()
    services = opened(nova, status)
    scheduler = nova_options.SchedulerOptions(query_placement_for_image_type_support=True)
    options = nova_request.RequestOptions(server=SERVER, scheduler=scheduler)
    for single in cases.read(services, options, ServerHosts()).requests:
        resources = {"VCPU": 2, "MEMORY_MB": 16, "DISK_GB": 10}
        assert single.query.groups[0].resources == resources
        assert any(
            text.startswith(f"the disk format and {unknown}") for text in single.caveats.doubts
        )
        # The image can require a trait.
        assert any(text.startswith(unknown) for text in single.caveats.doubts)


@pytest.mark.parametrize(
    ("image", "volumes", "disk", "is_assumed"),
    [("", (), 0, False), ("", ("v",), 0, False), (None, (), 10, False), (None, ("v",), 10, True)],
)
def test_a_root_disk_is_requested_unless_it_is_a_volume(
    image: Any, volumes: tuple[str, ...], disk: int, is_assumed: bool
) -> None:
    """A recording has no attachments: beside an image, any volume may be the root disk."""
    services = opened(recorded(image, *volumes))
    case = cases.read(services, nova_request.RequestOptions(server=SERVER), ServerHosts())
    for single in case.requests:
        assert single.query.groups[0].resources.get("DISK_GB", 0) == disk
        assert any("root disk is local" in it for it in single.caveats.assumed) is is_assumed


def test_servers_whose_ports_request_nothing_share_one_request() -> None:
    ports = {
        "a": [neutron_api.Port("p1", "", "a")],
        "b": [neutron_api.Port("p2", "", "b"), neutron_api.Port("p3", "", "b")],
        "c": [neutron_api.Port("p4", "", "c", vnic_type="remote-managed")],
        "d": [],
    }
    server = values.Server("", flavor=flavor.Flavor(1, 1, 1), flavor_name="f", project_id="p")
    listed = {uuid: dataclasses.replace(server, uuid=uuid, name=f"vm-{uuid}") for uuid in ports}
    nova = recorded()
    services = nova_request.RequestServices(
        nova, FakeNeutron, lambda: Glance(404), lambda _: frozenset()
    )
    read = cases.of_servers(
        services, listed, nova_options.SchedulerOptions(), ServerHosts(), ports
    ).values()
    a, b, c, d = (case for case in read if isinstance(case, Case))
    assert a.requests is b.requests
    assert len({a.kind, c.kind, d.kind}) == 3
    assert "COMPUTE_REMOTE_MANAGED_PORTS" in c.requests[0].query.root_required


@pytest.mark.parametrize(
    ("version", "option", "has_owner", "owner"),
    [
        # What nova shows, --nova-release, whether a host has the trait: whether nova requires it.
        ("2.104", None, True, True),
        ("2.104", None, False, None),
        ("2.103", None, True, None),
        (None, None, True, True),
        (None, None, False, False),
        (None, 34, False, None),
        ("2.104", 33, True, None),
    ],
)
def test_nova_requires_the_owner_if_its_release_has_the_filter_and_a_host_has_the_trait(
    version: str | None, option: int | None, has_owner: bool, owner: bool | None
) -> None:
    answers = {"GET /v2.1/": {"version": {"version": version}}} if version else {}
    paths: list[str] = []

    def ask(trait: str) -> frozenset[str]:
        paths.append(trait)
        return frozenset({"root"} if has_owner else ())

    options = nova_options.SchedulerOptions(release=option)
    rules = nova_request.observe_rules(api.RecordedNova(answers, "nova"), options, ask)
    assert rules.options.owner is owner
    is_of_34 = max(rules.releases) == 34
    assert paths == [traits.OWNER] * is_of_34
    assert bool(rules.owner_note) == (is_of_34 and owner is not None)
    # An operator's word counts without a request.
    paths.clear()
    options = dataclasses.replace(options, owner=True)
    rules = nova_request.observe_rules(api.RecordedNova(answers, "nova"), options, ask)
    assert (rules.options.owner, rules.owner_note, paths) == (True, "", [])


def test_the_hosts_with_a_trait_are_the_roots_of_the_trees_with_it(
    placement: service.InProcessPlacement,
) -> None:
    client = placement.client()
    host, other = client.create_provider("cmp-0"), client.create_provider("cmp-1")
    device = client.create_provider("cmp-0_gpu", parent_uuid=host.uuid)
    for item, expected in ((None, set()), (device, {host.uuid}), (other, {host.uuid, other.uuid})):
        if item is not None:
            client.replace_provider_traits(item.uuid, 0, [traits.OWNER])
        assert nova_request.with_trait(client, traits.OWNER) == expected
        with source.of(client, ReadContext()).everything() as base:
            assert nova_request.with_trait_in(base, traits.OWNER) == expected


def test_no_host_has_a_trait_that_placement_does_not_have(
    placement: service.InProcessPlacement,
) -> None:
    assert nova_request.with_trait(placement.client(), "CUSTOM_NOPE") == frozenset()


@pytest.mark.parametrize(("owners", "owner"), [("ab", True), ("a", False), ("", None)])
def test_nova_requires_the_owner_once_every_compute_node_has_it(
    owners: str, owner: bool | None
) -> None:
    nodes = tuple(values.ComputeNode(name, name, name) for name in "ab")
    services = tuple(values.ComputeService(name) for name in "ab")
    compute = ServerHosts(values.Hosts(nodes, services))
    answers = {"GET /v2.1/": {"version": {"version": "2.104"}}}
    rules = nova_request.observe_rules(
        api.RecordedNova(answers, "nova"),
        nova_options.SchedulerOptions(),
        lambda _: frozenset(owners),
        compute,
    )
    assert rules.options.owner is owner


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (errors.NotKnown("not recorded"), "nova shows no version"),
        ({"version": {"version": ""}}, "nova shows no version"),
        (api.NovaRefused(404, "gone"), "nova shows no version"),
        (api.NovaRefused(403, "no"), "nova refuses to show its version (HTTP 403)"),
    ],
)
def test_the_rules_without_a_version_say_why(answer: Any, reason: str) -> None:
    class Nova:
        source = ""

        def ask(self, path: str, version: str) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

    rules = nova_request.observe_rules(
        Nova(), nova_options.SchedulerOptions(), lambda _: frozenset()
    )
    assert (rules.releases, rules.notes[0]) == (
        (34,),
        f"{reason}: the rules of nova 34 (--nova-release)",
    )
