# SPDX-License-Identifier: Apache-2.0
"""The kit for other projects: servers, documents, recorded requests, faults, fixtures."""

from __future__ import annotations

import time
import unittest
from typing import Any

import keystoneauth1.exceptions
import pytest
import requests

from osc_placement import microversion, testing
from osc_placement.client import api, api_errors
from osc_placement.nova import api as nova_api, servers
from osc_placement.testing import pytest_plugin, service, traffic
from osc_placement.workflows.cloud import compute_nodes
from tests.support.versions import NEXT

BOTH = pytest.mark.parametrize("kind", [service.InProcessPlacement, service.LoopbackPlacement])


def provider_names(client: api.Client) -> set[str]:
    return {provider.name for provider in client.list_providers()}


@BOTH
def test_a_server_can_load_a_sample_cloud(kind: type[service.EmbeddedPlacement]) -> None:
    with kind(load="12-hosts") as placement:
        assert "cmp-0001.lab.example.org" in provider_names(placement.client())


@BOTH
def test_a_client_can_be_pinned(kind: type[service.EmbeddedPlacement]) -> None:
    with kind() as placement:
        for version in ("1.14", microversion.Microversion(1, 14)):
            assert placement.client(version).microversion == (1, 14)
            with pytest.raises(api_errors.UnsupportedVersion):
                placement.client(version).check_reshape()
        assert placement.client().microversion == microversion.MAXIMUM


@BOTH
def test_two_servers_have_separate_states(kind: type[service.EmbeddedPlacement]) -> None:
    with kind() as placement, kind() as other:
        placement.client().create_provider("only here")
        assert provider_names(placement.client()) == {"only here"}
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
    placement = kind(load={"providers": {testing.uuid_of("a"): {}}})
    with pytest.raises(testing.DocumentInvalid):
        placement.start()
    placement.stop()


def test_after_a_stop_the_port_is_closed() -> None:
    with service.LoopbackPlacement() as placement:
        url = placement.url
        assert requests.get(url, timeout=120).status_code == 200
    with pytest.raises(requests.ConnectionError):
        requests.get(url, timeout=120)


def test_the_fixture_is_an_empty_server(placement_server: service.LoopbackPlacement) -> None:
    answer = requests.get(placement_server.url, timeout=120)
    assert answer.json()["versions"][0]["max_version"] == str(microversion.MAXIMUM)


@pytest.mark.placement(load="12-hosts")
def test_the_marker_loads_a_sample_cloud(placement_client: api.Client) -> None:
    assert len(provider_names(placement_client)) == 22


CLOUD = testing.Cloud().host("h1", VCPU=8, traits=["CUSTOM_FAST"], aggregates=["rack 1"])


def test_a_document_may_leave_out_what_is_empty() -> None:
    uuid = testing.uuid_of("a")
    with service.InProcessPlacement(load={"providers": {uuid: {"name": "a"}}}) as placement:
        (provider,) = placement.client().list_providers()
        assert (provider.name, provider.root_uuid, provider.generation) == ("a", uuid, 0)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"provider": {}}, "the document has provider; its keys are custom_resource_classes"),
        ({"providers": {"u": {"nam": "a"}}}, "provider u has nam; its keys are name, parent"),
        ({"consumers": {"u": {"owner": "a"}}}, "consumer u has owner; its keys are allocations"),
        ({"providers": {"u": 3}}, "provider u is 3, not an object"),
        ({"providers": []}, "'providers' is not an object"),
    ],
)
def test_an_unknown_key_of_a_document_is_an_error(document: Any, reason: str) -> None:
    with pytest.raises(testing.DocumentInvalid, match=reason):
        service.InProcessPlacement(load=document)


def test_a_cloud_has_trees_and_allocations() -> None:
    cloud = (
        testing.Cloud()
        .host("h1", VCPU=8, DISK_GB={"total": 100, "reserved": 10}, CUSTOM_FPGA=1)
        .child("h1", "gpu", VGPU=4)
        .child("gpu", "part")
        .server("vm", {"h1": {"VCPU": 2}, "gpu": {"VGPU": 1}}, project="p")
    )
    with service.InProcessPlacement(load=cloud) as placement:
        client = placement.client()
        host = testing.uuid_of("h1")
        assert {item.root_uuid for item in client.list_providers()} == {host}
        assert client.list_inventories(host).inventories["DISK_GB"].reserved == 10
        assert placement.adapter("1.9").get("/usages?project_id=p").json() == {
            "usages": {"VCPU": 2, "VGPU": 1}
        }
        exported = placement.export()
        assert exported["consumers"] == cloud.document()["consumers"]
        assert exported["custom_resource_classes"] == ["CUSTOM_FPGA"]


def test_a_cloud_has_nova_s_half() -> None:
    cloud = (
        testing.Cloud()
        .node("a", "host-a", hypervisor_type="QEMU")
        .node("b", service={"status": "disabled"})
        .instance("vm", "a", vcpus=2, vm_state="stopped", extra_specs={"hw:cpu_policy": "shared"})
        .instance("offloaded", vm_state="shelved_offloaded")
        .migration("move", "vm", "b", "a", status="error")
        .flavor("small", vcpus=2, ephemeral=1)
        .aggregate("rack", ["a", "b"], availability_zone="east")
    )
    recorded = nova_api.RecordedNova(cloud.nova(), "a test")
    hosts = compute_nodes.read_server_hosts(recorded)
    assert {node.uuid: node.host for node in hosts.hosts.nodes} == {
        testing.uuid_of("a"): "host-a",
        testing.uuid_of("b"): "b",
    }
    assert [*hosts.refused(map(testing.uuid_of, "ab"))] == [testing.uuid_of("b")]
    vm, offloaded = servers.servers(recorded)
    assert (vm.host, vm.node, vm.vm_state, vm.flavor.vcpus) == ("host-a", "a", "stopped", 2)
    assert vm.flavor.extra_specs == {"hw:cpu_policy": "shared"}
    assert (offloaded.host, offloaded.vm_state) == (None, "shelved_offloaded")
    (move,) = servers.migrations(recorded)
    assert (move.server_uuid, move.source_host, move.dest_host) == (vm.uuid, "b", "host-a")
    assert (move.type, move.status) == ("live-migration", "error")
    (rack,) = nova_api.host_aggregates(recorded)
    assert (rack.hosts, rack.metadata) == (("host-a", "b"), {"availability_zone": "east"})


def test_of_a_cell_that_is_down_a_cloud_shows_little_more_than_names() -> None:
    cloud = testing.Cloud("nova-{}").compute("a", "b").guest("on a", "a").guest("on b", "b")
    cloud.instance("gone", "b", status="DELETED").cell_down("a")
    recorded = nova_api.RecordedNova(cloud.nova(), "a test")
    hosts = servers.read_hosts(recorded)
    assert (hosts.unreachable, [node.host for node in hosts.nodes]) == ({"nova-a"}, ["nova-b"])
    listed = {item.uuid: (item.known, item.host) for item in servers.servers(recorded)}
    assert listed == {
        testing.uuid_of("on a"): (False, None),
        testing.uuid_of("on b"): (True, "nova-b"),
    }
    assert [item.name for item in servers.deleted_servers(recorded)] == ["gone"]


def test_an_inventory_of_a_cloud_can_be_changed() -> None:
    cloud = testing.Cloud().host("h", VCPU=8, DISK_GB=9)
    changed = cloud.change("h", VCPU={"total": 8, "reserved": 1}, DISK_GB=None, VGPU=1)
    (fields,) = changed.document()["providers"].values()
    assert fields["inventories"] == {"VCPU": {"total": 8, "reserved": 1}, "VGPU": {"total": 1}}
    with pytest.raises(ValueError, match="no provider with the name other"):
        cloud.change("other", VCPU=1)
    with pytest.raises(TypeError, match="VCPU='8' is not a total"):
        cloud.change("h", VCPU="8")  # type: ignore[arg-type]


@BOTH
def test_the_requests_are_recorded_without_those_of_a_rival(
    kind: type[service.EmbeddedPlacement],
) -> None:
    with kind(load=CLOUD) as placement:
        adapter = placement.adapter("1.39")
        placement.rival().create_provider("not recorded")
        adapter.put("/traits/CUSTOM_A")
        assert placement.count() == {"PUT /traits/{}": 1}
        assert placement.requests[0].version == "1.39"


@BOTH
def test_an_adapter_has_a_microversion_and_roles(kind: type[service.EmbeddedPlacement]) -> None:
    with kind() as placement:
        reader = placement.adapter("1.39", token="bob:p", roles=["reader"])
        assert reader.get("/usages?project_id=p").json() == {"usages": {}}
        with pytest.raises(keystoneauth1.exceptions.Forbidden):
            reader.put("/traits/CUSTOM_A")
        old = placement.adapter("1.3").get("/resource_classes")
        assert old.headers["openstack-api-version"] == "placement 1.3"


@BOTH
def test_a_reset_restores_the_content_and_forgets_requests_and_actions(
    kind: type[service.EmbeddedPlacement],
) -> None:
    with kind(load=CLOUD) as placement:
        client, url = placement.client(), placement.url
        client.create_provider("h2")
        placement.before(traffic.refuse(500, "broken"))
        placement.reset()
        assert (provider_names(client), placement.url) == ({"h1"}, url)
        assert client.transport.local() is None or kind is service.InProcessPlacement
        assert placement.count()["POST /resource_providers"] == 0
        placement.reset(load=testing.Cloud().host("other"))
        assert provider_names(client) == {"other"}


def test_a_database_is_not_reset(tmp_path: Any) -> None:
    with (
        service.InProcessPlacement(database=str(tmp_path / "file")) as placement,
        pytest.raises(RuntimeError, match="database file"),
    ):
        placement.reset()


@BOTH
def test_the_second_write_conflicts(kind: type[service.EmbeddedPlacement]) -> None:
    with kind() as placement:
        client = placement.client(microversion.MAXIMUM)
        conflict = traffic.refuse(409, "changed", "placement.concurrent_update")
        placement.before_write(traffic.nth(2, conflict))
        client.create_trait("CUSTOM_A")
        with pytest.raises(api_errors.GenerationConflict):
            client.create_trait("CUSTOM_B")
        client.create_trait("CUSTOM_B")


@BOTH
def test_a_lost_response_leaves_the_write_done(kind: type[service.EmbeddedPlacement]) -> None:
    with kind() as placement:
        client = placement.client(microversion.MAXIMUM)
        placement.after_write(traffic.cut)
        with pytest.raises(api_errors.OutcomeUnknown):
            client.create_trait("CUSTOM_A")
        assert placement.rival().trait_exists("CUSTOM_A")


@BOTH
def test_a_busy_server_says_when_to_come_back(kind: type[service.EmbeddedPlacement]) -> None:
    with kind() as placement:
        placement.before(traffic.refuse(503, "busy", retry_after=7))
        answer = placement.session().get(f"{placement.url}/traits")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "7")


def test_a_slow_server_answers_later() -> None:
    with service.InProcessPlacement() as placement:
        placement.before(traffic.slow(0.05))
        start = time.monotonic()
        placement.session().get(placement.url)
        assert time.monotonic() - start >= 0.05


@BOTH
def test_a_rival_changes_a_provider_between_read_and_write(
    kind: type[service.EmbeddedPlacement],
) -> None:
    with kind(load=CLOUD) as placement:
        uuid, rival = testing.uuid_of("h1"), placement.rival()
        write = "PUT /resource_providers/{}/traits"
        placement.before(
            traffic.at(write, lambda _: rival.replace_provider_traits(uuid, 0, []) and None)
        )
        client = placement.client(microversion.MAXIMUM)
        read = client.list_provider_traits(uuid)
        with pytest.raises(api_errors.GenerationConflict):
            client.replace_provider_traits(uuid, read.generation, ["HW_CPU_X86_VMX"])


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (lambda cloud: cloud.host("h", VCPU="8"), "h: VCPU='8' is not a total"),
        (lambda cloud: cloud.host("h", VCPU=1.5), "h: VCPU=1.5 is not a total"),
        (lambda cloud: cloud.host("h", traits="CUSTOM_A"), r"write \['CUSTOM_A'\]"),
        (lambda cloud: cloud.host("h", aggregates="rack"), r"write \['rack'\]"),
        (lambda cloud: cloud.host("h").host("h"), "two providers with the name h"),
        (lambda cloud: cloud.server("s", {}).server("s", {}), "two consumers with the name s"),
    ],
)
def test_a_cloud_refuses_what_it_cannot_mean(write: Any, reason: str) -> None:
    with pytest.raises((TypeError, ValueError), match=reason):
        write(testing.Cloud())


@pytest.mark.parametrize(
    "build",
    [
        lambda: testing.InProcessPlacement(load=5),
        lambda: testing.InProcessPlacement(load=[]),
        lambda: testing.InProcessPlacement().before(5),
        lambda: traffic.nth(0, traffic.nothing),
        lambda: traffic.at("/traits", traffic.nothing),
        lambda: traffic.at("PUT /traits/CUSTOM_A", traffic.nothing),
        lambda: traffic.about("h1", traffic.nothing),
        lambda: testing.RecordedServices({"/v2.1/os-aggregates": {}}),
    ],
)
def test_a_content_or_an_action_that_cannot_be_is_an_error(build: Any) -> None:
    reasons = r"is not|no request|its keys are|not a sample cloud's name, a Cloud or a document"
    with pytest.raises((TypeError, ValueError), match=reasons):
        build()


@BOTH
@pytest.mark.parametrize("version", [NEXT, "2.0", "0.9", "", "abc", 1.31])
def test_a_microversion_that_does_not_exist_is_an_error(
    kind: type[service.EmbeddedPlacement], version: Any
) -> None:
    with pytest.raises(ValueError, match="microversion"):
        kind(max_version=version)
    with kind() as placement, pytest.raises(ValueError, match="microversion"):
        placement.client(version)


@BOTH
def test_a_server_can_have_the_microversions_of_an_older_release(
    kind: type[service.EmbeddedPlacement],
) -> None:
    with kind(max_version="1.31") as placement:
        assert str(placement.client().microversion) == "1.31"
        latest = placement.adapter("latest").get("/resource_providers")
        assert latest.headers["openstack-api-version"] == "placement 1.31"
        refused = placement.adapter("1.32").get("/resource_providers", raise_exc=False)
        assert refused.status_code == 406
        (error,) = refused.json()["errors"]
        assert "Unacceptable version header: 1.32" in error["detail"]
        assert error["max_version"] == "1.31"


def test_a_server_is_a_fixture_of_testtools_and_fixtures() -> None:
    """The protocol of ``useFixture``; tools/package-check uses it with the real libraries."""

    class Case(unittest.TestCase):
        def use(self, fixture: Any) -> Any:
            fixture.setUp()
            self.addCleanup(fixture.cleanUp)
            assert fixture.getDetails() == {}
            return fixture

        def runTest(self) -> None:  # noqa: N802
            placement = self.use(testing.LoopbackPlacement(load="12-hosts"))
            assert requests.get(placement.url, timeout=120).ok
            self.addCleanup(lambda: placement.url)

    result = unittest.TestResult()
    Case().run(result)
    assert (result.failures, result.errors) == ([], [])


def test_nova_and_neutron_answer_as_they_were_recorded() -> None:
    recorded = testing.sample_nova("12-hosts")
    with testing.RecordedServices() as services:
        (link,) = requests.get(services.nova_url, timeout=120).json()["version"]["links"]
        assert link["href"] == services.nova_url
        (version,) = requests.get(services.neutron_url, timeout=120).json()["versions"]
        assert version["id"] == "v2.0"
        ports = requests.get(f"{services.neutron_url}/v2.0/ports?device_id=x", timeout=120).json()
        assert ports == {"ports": []}
        for request in recorded:
            path = request.removeprefix("GET ").partition("/")[2]
            answer = requests.get(f"{services.neutron_url}/{path}", timeout=120)
            assert answer.json() == recorded[request], request
        missing = requests.get(f"{services.nova_url}/nothing", timeout=120)
        assert (missing.status_code, services.requests[-1]) == (404, "GET /v2.1/nothing")
        assert requests.post(f"{services.nova_url}/servers", timeout=120).status_code == 405


@pytest.mark.parametrize(
    ("mark", "reason"),
    [
        (pytest.mark.placement("12-hosts"), "has '12-hosts': its arguments have names"),
        (pytest.mark.placement(lod="12-hosts"), "has lod: .*the names are load, max_version"),
    ],
)
def test_a_marker_with_another_argument_is_an_error(mark: Any, reason: str) -> None:
    with pytest.raises(pytest.UsageError, match=reason):
        pytest_plugin._options(mark.mark)
