# SPDX-License-Identifier: Apache-2.0
"""Requests and findings on a cloud with every seeded fault: exact numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from osc_placement import microversion
from osc_placement.nova import api as nova_api
from osc_placement.workflows.repair.allocations import audit, heal, owners
from osc_placement.workflows.repair.allocations.heal_request import HealRequest
from osc_placement.workflows.repair.allocations.observe import HealReader
from osc_placement.workflows.repair.findings import AuditResult
from tests.support import embedded
from tests.support.clouds import large

HOSTS, NESTED, SERVERS = 100, 4, 1000

#: Projects with their users; consumers that nova does not know; consumers that are read until
#: the sums are the expected ones, of 466 that may have a wrong owner.
OWNERS, ORPHANS, SUSPECTS = 4, 5, 291
#: The hosts of servers without allocations.
LACKING = 17

CODES = {
    "missing": "missing",
    "orphaned": "orphaned",
    "doubled": "doubled",
    "size": "wrong-size",
    "owner": "wrong-owner",
}


class Cloud:
    """The seeded cloud on a reference server, and its recorded nova."""

    def __init__(self, hosts: int = HOSTS, nested: int = NESTED, servers: int = SERVERS) -> None:
        self.large = large.LargeCloud(hosts, nested, servers)
        self.client = embedded.Client(load=self.large.document())
        self.nova = nova_api.RecordedNova(self.large.nova(), "recorded")

    def audited(self, **options: bool) -> AuditResult[Any]:
        """The result of an audit; the requests are counted from here."""
        self.client.sent.clear()
        return audit.audit_cloud(self.client, self.nova, audit.AuditRequest(**options))

    def seeded(self) -> set[tuple[str, str]]:
        """``{(code, consumer uuid)}`` of every seeded fault."""
        return {
            (CODES[fault], uuid) for fault, uuids in self.large.seeded.items() for uuid in uuids
        }


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    return Cloud()


def test_flavors_and_amounts_of_many_servers_are_kept_once(cloud: Cloud) -> None:
    snapshot = HealReader(cloud.client, cloud.nova).read_cloud()
    flavors = {id(server.flavor) for server in snapshot.servers.values()}
    assert len(flavors) == len(large.FLAVORS)
    amounts = [part for allocation in snapshot.allocations.values() for part in allocation.values()]
    assert len({id(amount) for amount in amounts}) == len({str(amount) for amount in amounts})


def found(result: AuditResult[Any]) -> set[tuple[str, str]]:
    """``{(code, uuid)}`` of the findings."""
    return {(str(finding.code), finding.subject.uuid) for finding in result.findings}


#: The requests of audit and heal, without the listings.
READS = {
    # Capacities and usages of all hosts; unused devices have no allocations to read.
    "GET /allocation_candidates": 1,
    "GET /resource_providers/{}/allocations": HOSTS + NESTED,
    # With their units: hosts of servers without allocations.
    "GET /resource_providers/{}/inventories": LACKING,
    "GET /usages": OWNERS,
    "GET /allocations/{}": ORPHANS + SUSPECTS,
}


def test_an_audit_finds_every_fault_with_one_request_per_host(cloud: Cloud) -> None:
    assert found(cloud.audited()) == cloud.seeded()
    # The listings: all, sharing, with COMPUTE_NODE.
    assert cloud.client.count() == {"GET /resource_providers": 3, **READS}


def test_one_request_reports_the_capacities_of_more_than_a_thousand_hosts() -> None:
    cloud = Cloud(1001, 0, 100)
    assert found(cloud.audited()) == cloud.seeded()
    count = cloud.client.count()
    assert count["GET /allocation_candidates"] == 1
    # Hosts without servers are not read, and units only where a server lacks allocations.
    assert count["GET /resource_providers/{}/allocations"] <= 100
    assert count["GET /resource_providers/{}/inventories"] == 2


def test_healing_reads_owners_until_the_sums_are_the_expected_ones(cloud: Cloud) -> None:
    cloud.client.sent.clear()
    planned = heal.plan_healing(cloud.client, cloud.nova, HealRequest())
    changed = {change.subject.uuid for change in planned.plan.changes}
    assert changed == {*cloud.large.seeded["missing"], *cloud.large.seeded["owner"]}
    assert cloud.client.count() == {"GET /resource_providers": 2, **READS}


def test_the_limit_of_reads_is_reported(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners, "MOST_READS", 20)
    result = cloud.audited()
    limit = (
        "the owners of 466 servers were not checked: the sums of their projects and users differ,"
        " and the limit of 20 reads is reached; --check-owners reads all"
    )
    assert limit in result.not_checked
    assert cloud.client.count()["GET /allocations/{}"] == 20
    result = cloud.audited(check_owners=True)
    assert found(result) == cloud.seeded()
    holding = SERVERS - len(cloud.large.seeded["missing"])
    assert cloud.client.count()["GET /allocations/{}"] == holding + ORPHANS
    assert not any("owners" in note for note in result.not_checked)


@pytest.mark.seeds(3, long=30)
def test_a_file_shows_all_owners_without_a_request(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "MOST_READS", 20)
    cloud, chance = Cloud(20, 2, 200), random.Random(seed)
    document = cloud.large.document()
    consumers = document["consumers"]
    for first, second in zip(*(chance.sample(sorted(consumers), 20) for _ in "ab"), strict=True):
        for field in ("project", "user"):
            pair = consumers[first][field], consumers[second][field]
            consumers[second][field], consumers[first][field] = pair
    cloud.client = embedded.Client(load=document)
    expected = found(cloud.audited(check_owners=True))
    cloud.client.sent.clear()
    file = cloud.client.placement.client(microversion.MAXIMUM)
    result = audit.audit_cloud(file, cloud.nova, audit.AuditRequest())
    assert found(result) == expected
    assert not any("owners" in note for note in result.not_checked)
    assert cloud.client.count().keys() <= {
        "GET /resource_providers",
        "GET /allocation_candidates",
        "GET /resource_providers/{}/allocations",
        "GET /resource_providers/{}/inventories",
        # Of consumers that nova does not list.
        "GET /allocations/{}",
    }
    assert cloud.client.count()["GET /allocations/{}"] <= ORPHANS
