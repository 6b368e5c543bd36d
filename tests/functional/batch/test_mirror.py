# SPDX-License-Identifier: Apache-2.0
"""``placement aggregate mirror`` on every target, with recorded answers of a real nova."""

from __future__ import annotations

import copy
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from osc_placement import testing
from osc_placement.testing import service
from tests.support.peer import shell, target as targets

pytestmark = pytest.mark.usefixtures("sample")

PAGE = 4


class Nova(service.RecordedServices):
    """``answers`` has the form of ``osc_placement.testing.sample_nova`` and may be changed.

    ``unreachable`` are hosts whose cell is down: their services are stubs, and a page of
    hypervisors that reaches beyond the other cells fails.
    """

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__(answers)
        self.answers = answers
        self.unreachable: list[str] = []
        self.forbidden: set[str] = set()
        #: The path and the microversion of each request.
        self.asked: list[str] = []
        self.start()

    @property
    def url(self) -> str:
        """The endpoint, as in a catalog."""
        return self.nova_url

    def answer(self, path: str, query: Mapping[str, str], version: str) -> tuple[str, Any]:
        self.asked.append(f"{path.removeprefix('/v2.1')} {version.removeprefix('compute ')}")
        if path.removeprefix("/v2.1") in self.forbidden:
            text = "Policy doesn't allow os_compute_api:os-aggregates:index to be performed."
            return "403 Forbidden", {"forbidden": {"code": 403, "message": text}}
        answer = self.answers[f"GET {path}"]
        if path.endswith("/os-hypervisors/detail"):
            return self._page(answer["hypervisors"], query)
        if path.endswith("/os-services"):
            stubs = [
                {"binary": "nova-compute", "host": host, "status": "UNKNOWN"}
                for host in self.unreachable
            ]
            return "200 OK", {"services": answer["services"] + stubs}
        return "200 OK", answer

    def _page(self, hypervisors: list[Any], query: Mapping[str, str]) -> tuple[str, Any]:
        ids = [item["id"] for item in hypervisors]
        start = ids.index(query["marker"]) + 1 if "marker" in query else 0
        limit = int(query["limit"])
        if self.unreachable and start + limit > len(ids):
            return "500 Internal Server Error", {
                "computeFault": {"message": "Unexpected API Error"}
            }
        page = hypervisors[start : start + min(limit, PAGE)]
        body: dict[str, Any] = {"hypervisors": page}
        if start + len(page) < len(ids):
            body["hypervisors_links"] = [{"rel": "next", "href": "http://elsewhere/"}]
        return "200 OK", body


MIRROR = "placement aggregate mirror"
RECORDED = ("--os-nova-recording", "12-hosts", "--allow", "recorded-nova")
DOMAIN = "lab.example.org"

NOVA = testing.sample_nova("12-hosts")
AGGREGATES = {item["name"]: item for item in NOVA["GET /v2.1/os-aggregates"]["aggregates"]}
NODES = {
    item["hypervisor_hostname"]: item
    for item in NOVA["GET /v2.1/os-hypervisors/detail"]["hypervisors"]
}
SHARE = "7c4aee34-82dc-5451-83d6-8ae744ab9365"


def uuid_of(name: str) -> str:
    return str(AGGREGATES[name]["uuid"])


def expected(without: tuple[str, ...] = ("cmp-0010",)) -> dict[str, set[str]]:
    """``{aggregate: provider names}`` in nova, for hosts with a provider."""
    nodes = {item["service"]["host"]: name for name, item in NODES.items()}
    return {
        name: {nodes[host] for host in item["hosts"] if host in nodes and host not in without}
        for name, item in AGGREGATES.items()
    }


def members(target: targets.Target) -> dict[str, set[str]]:
    """The same in Placement."""
    return {
        name: {
            entry["name"]
            for entry in target.ask("GET", f"/resource_providers?member_of={uuid_of(name)}")[
                "resource_providers"
            ]
        }
        for name in AGGREGATES
    }


def put(target: targets.Target, provider: str, *aggregates: str) -> None:
    """Set the aggregates of a provider."""
    path = f"/resource_providers/{provider}"
    body = {
        "aggregates": list(aggregates),
        "resource_provider_generation": target.ask("GET", path)["generation"],
    }
    target.ask("PUT", f"{path}/aggregates", body)


def rows(
    openstack: shell.OpenStack, *arguments: str, code: int = 0, nova: tuple[str, ...] = RECORDED
) -> dict[str, Any]:
    return {row["name"]: row for row in openstack.rows(MIRROR, *nova, *arguments, code=code)}


def status_of(found: dict[str, Any]) -> dict[str, str]:
    return {name: row["status"] for name, row in found.items()}


def test_a_cloud_is_mirrored_and_problems_are_reported(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    foreign = target.ask("GET", f"/resource_providers/{SHARE}/aggregates")
    check = ("--dry-run", "--detailed-exitcode")
    planned = rows(openstack, *check, code=6)
    assert members(target) != expected()
    found = rows(openstack, code=6)
    assert members(target) == expected()
    assert {name: row["code"] for name, row in found.items() if row["code"]} == {
        "empty": "empty-aggregate",
        "ghost-nonode": "no-compute-node",
        "ghost-unmapped": "no-compute-node",
        f"cmp-0010.{DOMAIN}": "no-provider",
    }
    assert found["empty"]["status"] == "skipped"
    assert [name for name, status in status_of(planned).items() if status == "planned"] == [
        name for name, status in status_of(found).items() if status == "applied"
    ]
    assert found[f"cmp-0001.{DOMAIN}"]["reason"] == "to ssd, tenant-acme"
    again = rows(openstack, *check, code=6)
    assert set(status_of(again).values()) == {"unchanged", "skipped", "refused"}
    assert target.ask("GET", f"/resource_providers/{SHARE}/aggregates") == foreign


def test_drift_in_both_directions_is_repaired_and_undone(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    rows(openstack, code=6)
    node = NODES[f"cmp-0001.{DOMAIN}"]["id"]
    put(target, node, uuid_of("az2"), uuid_of("ssd"))
    put(target, SHARE, uuid_of("az1"))
    drifted = members(target)
    found = rows(openstack, "--dry-run", "--detailed-exitcode", "--prune", code=6)
    row = found[f"cmp-0001.{DOMAIN}"]
    assert (row["status"], row["reason"]) == ("planned", "to az1, tenant-acme; out of az2")
    assert "not a compute node" in found["nfs-share"]["reason"]
    assert rows(openstack, "--prune", "--undo-out", "undo.json", code=6)
    assert members(target) == expected() | {"az1": expected()["az1"] | {"nfs-share"}}
    openstack.do("placement plan undo", "undo.json")
    assert members(target) == drifted
    rows(openstack, "--prune", "--provider", "nfs-share", code=6)
    assert members(target) == expected()


def test_extra_members_are_drift_without_prune(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    rows(openstack, code=6)
    node = NODES[f"cmp-0003.{DOMAIN}"]["id"]
    put(target, node, uuid_of("az1"), uuid_of("empty"))
    arguments = ("--dry-run", "--detailed-exitcode", "--host", "cmp-0003")
    found = rows(openstack, *arguments, code=3)
    row = found[f"cmp-0003.{DOMAIN}"]
    assert (row["status"], row["code"]) == ("skipped", "stale-member")
    assert (row["before"], row["after"]) == ({uuid_of("empty"): True}, {uuid_of("empty"): False})
    assert "--prune removes it" in row["reason"]
    rows(openstack, "--dry-run")


def test_a_run_is_limited_to_hosts_and_aggregates(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    narrowed = ("--host", "cmp-0001", "--host", "cmp-0007", "--host-aggregate", "ssd")
    assert set(rows(openstack, *narrowed)) == {f"cmp-0001.{DOMAIN}", f"cmp-0007.{DOMAIN}"}
    assert members(target)["ssd"] == {f"cmp-0001.{DOMAIN}", f"cmp-0007.{DOMAIN}"}
    assert members(target)["az2"] == set()


def test_a_limited_plan_is_continued(openstack: shell.OpenStack, target: targets.Target) -> None:
    rows(openstack, "--dry-run", "--plan-out", "plan.json")
    shown = openstack.run("placement plan show", "plan.json")
    assert "placement aggregate mirror" in shown.stderr
    assert "nova's responses come from the sample 12-hosts" in shown.stderr
    assert openstack.run("placement plan apply", "plan.json", "--max-count", "3").code == 5
    openstack.run("placement plan apply", "plan.json")
    assert members(target) == expected()


def answers(tmp_path: pathlib.Path, document: Any) -> tuple[str, ...]:
    path = tmp_path / "nova.json"
    path.write_text(json.dumps(document))
    return ("--os-nova-recording", str(path), "--allow", "recorded-nova")


def test_a_deleted_host_aggregate_is_forgotten_by_its_uuid(
    openstack: shell.OpenStack, target: targets.Target, tmp_path: pathlib.Path
) -> None:
    rows(openstack, code=6)
    document = copy.deepcopy(NOVA)
    listed = document["GET /v2.1/os-aggregates"]["aggregates"]
    listed[:] = [item for item in listed if item["name"] not in ("pinned", "ssd")]
    less = answers(tmp_path, document)
    rows(openstack, "--forget", uuid_of("ssd"), code=6, nova=less)
    assert (members(target)["ssd"], members(target)["pinned"]) == (set(), expected()["pinned"])
    code, message = openstack.fails(MIRROR, *less, "--forget", uuid_of("az1"))
    assert (code, "still has this host aggregate, 'az1'" in message) == (1, True)


def test_a_compute_service_or_a_recording_is_required(
    openstack: shell.OpenStack, target: targets.Target, tmp_path: pathlib.Path
) -> None:
    for nova, message in (
        (("--os-nova-recording", "nofile.json"), "nofile.json"),
        (answers(tmp_path, {"GET /v2.1/servers": {}}), "os-aggregates"),
        ((), "nova"),
    ):
        before = members(target)
        code, text = openstack.fails(MIRROR, *nova)
        assert (code, message in text, "Traceback" in text) == (1, True, False), text
        assert members(target) == before


@pytest.fixture
def nova(
    openstack: shell.OpenStack, target: targets.Target, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Nova]:
    """A compute API in the same clouds.yaml as the target."""
    stand_in = Nova(copy.deepcopy(NOVA))
    placement = getattr(target, "url", "http://127.0.0.1:9/none")
    settings = {
        "auth_type": "admin_token",
        "auth": {"endpoint": placement, "token": "admin"},
        "compute_endpoint_override": stand_in.url,
        "placement_endpoint_override": placement,
    }
    pathlib.Path("clouds.yaml").write_text(json.dumps({"clouds": {"here": settings}}))
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(pathlib.Path("clouds.yaml").absolute()))
    monkeypatch.setenv("OS_CLOUD", "here")
    if isinstance(target, targets.OverHttp):
        monkeypatch.setattr(target, "options", [])
    yield stand_in
    stand_in.stop()


def test_nova_is_read_in_pages_with_the_right_versions(
    openstack: shell.OpenStack, target: targets.Target, nova: Nova
) -> None:
    rows(openstack, code=6, nova=())
    assert members(target) == expected()
    assert nova.asked == [
        "/os-aggregates 2.41",
        "/os-services 2.69",
        *["/os-hypervisors/detail 2.53"] * 4,
        "/os-aggregates 2.41",
    ]


def test_a_cell_that_is_down_removes_no_membership(
    openstack: shell.OpenStack, target: targets.Target, nova: Nova
) -> None:
    rows(openstack, code=6, nova=())
    far = [item for item in NODES.values() if item["service"]["host"] in ("cmp-0011", "cmp-0012")]
    listed = nova.answers["GET /v2.1/os-hypervisors/detail"]["hypervisors"]
    listed[:] = [item for item in listed if item not in far]
    nova.unreachable = ["cmp-0011", "cmp-0012"]
    put(target, NODES[f"cmp-0001.{DOMAIN}"]["id"], uuid_of("az2"))
    found = rows(openstack, "--prune", code=6, nova=())
    assert found[f"cmp-0001.{DOMAIN}"]["status"] == "applied"
    assert "its cell is down" in found["cmp-0011"]["reason"]
    assert "not a compute node" in found[f"cmp-0011.{DOMAIN}"]["reason"]
    assert members(target) == expected()
    named = ("--prune", "--provider", f"cmp-0011.{DOMAIN}")
    assert "may be a compute node" in str(rows(openstack, *named, code=6, nova=()))
    assert members(target) == expected()


def test_a_missing_nova_permission_is_named(
    openstack: shell.OpenStack, target: targets.Target, nova: Nova
) -> None:
    nova.forbidden = {"/os-aggregates"}
    before = members(target)
    code, message = openstack.fails(MIRROR)
    assert code == 1
    assert "missing permission in nova" in message
    assert "os_compute_api:os-aggregates:index" in message
    assert members(target) == before
