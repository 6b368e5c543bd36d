"""Batches through a proxy that refuses, cuts connections and lets others write in between."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.peer import chaos, fixtures, shell
from tests.peer import target as targets

AMEND = "resource provider inventory amend"
MOODS = {"conflict": 0.3, "refuse": 0.1, "cut_before": 0.07, "cut_after": 0.07, "lose_after": 0.07}


@pytest.fixture(params=["loopback", "placement"])
def target(request: pytest.FixtureRequest) -> Iterator[targets.Target]:
    """The targets that have a socket."""
    if request.param == "placement":
        real: targets.RealPlacement = request.getfixturevalue("real_placement")
        real.reset()
        yield real
    else:
        yield from fixtures.embedded("loopback", request.getfixturevalue("tmp_path"))


def options(url: str) -> list[str]:
    return ["--os-auth-type", "admin_token", "--os-endpoint", url, "--os-token", "admin"]


def inventories(target: targets.Target) -> dict[str, dict[str, dict[str, float]]]:
    return {
        provider["name"]: target.ask("GET", f"/resource_providers/{provider['uuid']}/inventories")[
            "inventories"
        ]
        for provider in target.ask("GET", "/resource_providers")["resource_providers"]
    }


@pytest.mark.usefixtures("openstack")
@pytest.mark.timeout(300)
def test_the_end_state_is_exactly_the_planned_one(target: targets.Target) -> None:
    target.load("200-hosts")
    before = inventories(target)
    with chaos.between(target.url, **MOODS, reads=0.1) as proxy:  # type: ignore[attr-defined]
        outcome = shell.run(
            [
                *options(proxy.url),
                *AMEND.split(),
                *("--all", "--resource", "VCPU:allocation_ratio+=1"),
                *("--resource", "MEMORY_MB:reserved+=7", "-f", "json"),
            ]
        )
    rows = json.loads(outcome.stdout)
    after = inventories(target)
    changed = {row["name"] for row in rows if row["status"] == "applied"}
    assert {row["status"] for row in rows} == {"applied", "left alone"}, outcome.stderr
    assert outcome.code == 0
    assert len(changed) > 190
    assert sum(proxy.requests.values()) > sum(proxy.carried_out.values()) * 2
    for row in rows:
        name, path = row["name"], f"/resource_providers/{row['uuid']}/inventories"
        ours = 1 if name in changed else 0
        assert proxy.carried_out[path] == ours, (
            f"{name} was written {proxy.carried_out[path]} times"
        )
        for resource_class, fields in before[name].items():
            wanted = dict(fields)
            if resource_class == "VCPU":
                wanted["allocation_ratio"] += 1
            if resource_class == "MEMORY_MB":
                wanted["reserved"] += 7
            found = dict(after[name][resource_class])
            if resource_class == "DISK_GB":
                found["total"] = wanted["total"]
            assert found == wanted


@pytest.mark.usefixtures("openstack")
@pytest.mark.timeout(300)
def test_undo_through_the_same_chaos_gives_everything_back(target: targets.Target) -> None:
    target.load("12-hosts")
    before = inventories(target)
    with chaos.between(target.url, **MOODS, reads=0.1, seed=3) as proxy:  # type: ignore[attr-defined]
        for command in (
            f"{AMEND} --all --resource VCPU:total*=2 --undo-out undo.json",
            "placement plan undo undo.json",
        ):
            outcome = shell.run([*options(proxy.url), *command.split()])
            assert outcome.code == 0, outcome
    after = inventories(target)
    for found in (before, after):
        for classes in found.values():
            classes.pop("DISK_GB", None)
    assert after == before


@pytest.mark.usefixtures("openstack")
@pytest.mark.timeout(300)
def test_requests_are_as_many_as_promised(target: targets.Target) -> None:
    target.load("200-hosts")
    with chaos.between(target.url) as proxy:  # type: ignore[attr-defined]

        def counted(command: str) -> tuple[int, int, int]:
            """Listings, reads of one thing, and writes; the version document is not counted."""
            proxy.requests.clear()
            outcome = shell.run([*options(proxy.url), *command.split(), "-f", "json"])
            assert outcome.code == 0, outcome
            found = proxy.requests
            listings = found["GET /resource_providers"] + found["GET /allocation_candidates"]
            writes = sum(n for path, n in found.items() if not path.startswith("GET"))
            reads = sum(n for path, n in found.items() if path.count("/") > 2) - writes
            extra = sum(found.values()) - listings - reads - writes - found["GET /"]
            assert extra == 0, found
            return listings, reads, writes

        hosts = counted(f"{AMEND} --required COMPUTE_NODE --resource VCPU:allocation_ratio=20")
        count = hosts[1]
        assert count > 190
        assert hosts == (1, count, count)
        again = counted(f"{AMEND} --required COMPUTE_NODE --resource VCPU:allocation_ratio=20")
        assert again == (1, count, 0)
        less = counted(f"{AMEND} --required COMPUTE_NODE --resource VCPU:allocation_ratio=19")
        assert less[0] == 2
        assert less[2] == count
        target.ask("PUT", "/traits/CUSTOM_NEW")
        trait = "resource provider trait add --required COMPUTE_NODE --trait CUSTOM_NEW"
        assert counted(trait) == (2, count, count)
        assert counted(trait) == (2, 0, 0)
