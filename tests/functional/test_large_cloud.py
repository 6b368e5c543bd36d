# SPDX-License-Identifier: Apache-2.0
"""The requests of every operation that ``tools/benchmark-cloud`` measures: exact numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks import large_cloud
from osc_placement import testing
from tests.support.clouds import large
from tests.support.peer import target as targets

FLAT, NESTED, SERVERS = 60, 2, 600

HOSTS, PROVIDERS = FLAT + NESTED, FLAT + NESTED * (1 + large.DEVICES)
#: Projects with their users; consumers that a check of owners reads; those that a repair changes
#: and that were not read yet.
OWNERS, SUSPECTS, REPAIRED = 4, 35, 18

CANDIDATES, OF_PROVIDER = "GET /allocation_candidates", "/resource_providers/{}"
ALLOCATIONS, INVENTORIES = f"{OF_PROVIDER}/allocations", f"{OF_PROVIDER}/inventories"
TRAITS, AGGREGATES = f"{OF_PROVIDER}/traits", f"{OF_PROVIDER}/aggregates"

#: An audit that finds every sum as expected.
AUDIT = {CANDIDATES: 1, f"GET {ALLOCATIONS}": HOSTS, "GET /usages": OWNERS}
#: With the units of the hosts of servers without allocations.
LACKING = {**AUDIT, f"GET {INVENTORIES}": 12}
HEALTH = {
    **AUDIT,
    CANDIDATES: 1 + len(large.FLAVORS),
    # One more of the project of consumers without an owner.
    "GET /usages": OWNERS + 1,
    f"GET {INVENTORIES}": PROVIDERS,
    "GET /traits": 2,
    "GET /resource_classes": 1,
}
#: The second reading of the inventories finds providers that were deleted and created again.
SNAPSHOT = {
    **dict.fromkeys([f"GET {part}" for part in (ALLOCATIONS, TRAITS, AGGREGATES)], PROVIDERS),
    f"GET {INVENTORIES}": 2 * PROVIDERS,
    "GET /traits": 1,
    "GET /resource_classes": 1,
}

#: ``{operation: (listings of providers, {request: count})}``, and one request for the version.
EXPECTED: dict[str, tuple[int, dict[str, int]]] = {
    "list": (1, {}),
    "list --long": (
        1,
        {f"GET {path}": PROVIDERS for path in (OF_PROVIDER, INVENTORIES, TRAITS, AGGREGATES)},
    ),
    "amend aggregate, dry run": (1, {f"GET {INVENTORIES}": HOSTS - 1, CANDIDATES: 1}),
    "amend aggregate": (
        1,
        {f"GET {INVENTORIES}": HOSTS - 1, f"PUT {INVENTORIES}": HOSTS - 1, CANDIDATES: 1},
    ),
    # Only one host is left to change, so that its usages are read.
    "amend all, dry run": (1, {f"GET {INVENTORIES}": HOSTS, f"GET {OF_PROVIDER}/usages": 1}),
    "amend all": (
        1,
        {f"GET {INVENTORIES}": HOSTS, f"GET {OF_PROVIDER}/usages": 1, f"PUT {INVENTORIES}": 1},
    ),
    "trait add all": (2, {f"GET {TRAITS}": HOSTS, f"PUT {TRAITS}": HOSTS}),
    "mirror": (2, {f"GET {AGGREGATES}": 1, f"PUT {AGGREGATES}": 1}),
    "heal, dry run": (2, {**LACKING, "GET /allocations/{}": SUSPECTS}),
    "audit": (3, {**LACKING, "GET /allocations/{}": SUSPECTS}),
    "audit --repair": (
        3,
        {**LACKING, "GET /allocations/{}": SUSPECTS + REPAIRED, "POST /allocations": 3},
    ),
    "audit after repair": (3, AUDIT),
    # Without owners, a second reading of the hosts with allocations finds deleted consumers.
    "snapshot, no owners": (2, {**SNAPSHOT, f"GET {ALLOCATIONS}": PROVIDERS + HOSTS}),
    # The repair has given allocations to the servers without some.
    "snapshot": (2, {**SNAPSHOT, "GET /allocations/{}": SERVERS}),
    # One query per flavor and one of all hosts; listings of all providers, of those that share, and
    # of one per trait and class.
    "flavor audit": (17, {CANDIDATES: 1 + len(large.FLAVORS)}),
    # Health, and what it does not read of every provider. The allocations were repaired.
    "report": (26, {**HEALTH, f"GET {OF_PROVIDER}/allocations": PROVIDERS}),
    # What its checks read, each once. The allocations were repaired.
    "health": (26, HEALTH),
    "provider audit": (10, {f"GET {INVENTORIES}": PROVIDERS, "GET /traits": 1}),
}


class Service:
    """The service that the operations measure. Tests do not compare the tables of its database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.tables: Any = None


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    """``{operation: {request: count}}`` of all operations, one after the other."""
    folder = tmp_path_factory.mktemp("large")
    cloud = large.LargeCloud(FLAT, NESTED, SERVERS)
    recording = folder / "nova.json"
    recording.write_text(json.dumps(cloud.nova()))
    counts = {}
    with testing.LoopbackPlacement(load=cloud.document(), legacy_rbac=True) as placement:
        service = Service(placement.url)
        for operation in large_cloud.operations(service, cloud, recording, folder):
            if operation.is_local:  # It reads a file or the tables, and sends no request.
                continue
            placement.requests.clear()
            outcome = targets.run_at(placement.url, "", *operation.arguments, "-f", "json")
            assert outcome.code in operation.codes, outcome
            counts[operation.name] = placement.count()
    return counts


@pytest.mark.parametrize("operation", EXPECTED)
def test_requests(counted: dict[str, dict[str, int]], operation: str) -> None:
    listings, others = EXPECTED[operation]
    assert counted[operation] == {"GET /": 1, "GET /resource_providers": listings, **others}


def test_every_operation_is_expected(counted: dict[str, dict[str, int]]) -> None:
    assert counted.keys() == EXPECTED.keys()
