# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the real process while it reshapes, through a proxy that loses answers."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import pytest

from tests.functional.plan.test_kill import KilledCommands
from tests.support.functional_cloud import allocate, create
from tests.support.peer import chaos, fixtures, shell, target as targets

HOSTS = 4
MOVES = """\
moves:
- {from: $root, resources: {VGPU: all}, to: {name: "gpu-of-${root}", traits: [CUSTOM_VGPU_A]}}
"""


@pytest.fixture(params=[pytest.param("loopback", marks=pytest.mark.long), "placement"])
def target(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[targets.Target]:
    if request.param == "placement":
        real: targets.RealPlacement = request.getfixturevalue("real_placement")
        real.reset()
        yield real
    else:
        yield from fixtures.embedded("loopback", tmp_path)


def arrange(openstack: shell.OpenStack) -> None:
    """Hosts with a server each, and one that is on two of them."""
    for number in range(HOSTS):
        uuid = create(openstack, f"cn{number}", VCPU=8, VGPU=4)
        allocate(openstack, uuid, "VGPU=1,VCPU=1")
    found = openstack("resource provider list")
    uuids = {item["name"]: item["uuid"] for item in found}
    openstack.do(
        "resource provider allocation set",
        "0c57cadb-fc21-585e-9f39-000000000000",
        *("--allocation", f"rp={uuids['cn0']},VGPU=1"),
        *("--allocation", f"rp={uuids['cn1']},VGPU=1"),
        *("--project-id", "project", "--user-id", "user"),
    )


def state(target: targets.Target) -> dict[str, object]:
    """Inventories, traits and allocations of all providers, by name."""
    found = {}
    for item in target.ask("GET", "/resource_providers")["resource_providers"]:
        path = f"/resource_providers/{item['uuid']}"
        shares = target.ask("GET", f"{path}/allocations")["allocations"]
        found[item["name"]] = (
            target.ask("GET", f"{path}/inventories")["inventories"],
            target.ask("GET", f"{path}/traits")["traits"],
            {consumer: share["resources"] for consumer, share in shares.items()},
        )
    return found


@pytest.mark.timeout(300)
def test_a_killed_reshape_is_resumed_and_undone_despite_more_kills(
    openstack: shell.OpenStack, target: targets.Target, tmp_path: pathlib.Path
) -> None:
    arrange(openstack)
    pathlib.Path("moves.yaml").write_text(MOVES)
    before = state(target)
    with chaos.between(target.url, delay=0.002, lose_after=0.1, seed=3) as proxy:  # type: ignore[attr-defined]
        commands = KilledCommands(proxy, tmp_path, 3)
        reshape = "placement reshape moves.yaml --name-glob cn* --strategy pack"
        commands.finish(f"{reshape} --dry-run --plan-out plan.json", 1)
        assert state(target) == before
        ended = commands.finish("placement plan apply plan.json", 3)
        assert {row["status"] for row in json.loads(ended.stdout)} == {"applied"}
        after = state(target)
        assert [after[f"cn{number}"][0].keys() for number in range(HOSTS)] == [{"VCPU"}] * HOSTS
        shares = [after[f"gpu-of-cn{number}"][2] for number in range(HOSTS)]
        assert sorted(len(held) for held in shares) == [1, 1, 2, 2]
        commands.finish("placement plan undo plan.json", 3)
        assert state(target) == before
        assert commands.kills >= 3
