# SPDX-License-Identifier: Apache-2.0
"""``placement query replay --against``: two services, their answers and their times."""

from __future__ import annotations

import collections
import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from osc_placement import testing
from osc_placement.testing import traffic
from tests.support.peer import shell, target as targets

TRAIT = "HW_CPU_X86_AVX2"
LINE = '10.0.0.1 "GET /placement/allocation_candidates?{}" status: 200 len: 1 microversion: 1.36'
LIMITED = "resources=VCPU:2&limit=2"
Loopback = testing.LoopbackPlacement
Service = Loopback | targets.RealPlacement
QUERIES = {
    "resources=VCPU:1": 3,
    f"resources=VCPU:1&required={TRAIT}": 2,
    f"resources=VCPU:4&required={TRAIT}": 1,
    LIMITED: 1,
    "resources=VGPU:1": 1,
}


def sample() -> Iterator[Loopback]:
    """A Placement with the sample cloud."""
    with Loopback(load="12-hosts") as placement:
        yield placement


old = pytest.fixture(sample, name="old")
other = pytest.fixture(sample, name="other")


@pytest.fixture(params=["reference", "placement"])
def new(request: pytest.FixtureRequest) -> Service:
    """The new Placement: the reference server, or openstack-placement."""
    if request.param == "reference":
        reference: Loopback = request.getfixturevalue("other")
        return reference
    real: targets.RealPlacement = request.getfixturevalue("real_placement")
    real.load("12-hosts")
    return real


@pytest.fixture
def log(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An access log with the queries."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "access.log"
    lines = [LINE.format(query) for query, count in QUERIES.items() for _ in range(count)]
    path.write_text("\n".join([*lines, '10.0.0.1 "GET /placement/traits" status: 200', ""]))
    return str(path)


def replayed(old: Service, log: str, *arguments: str) -> shell.Outcome:
    cloud = ("--os-auth-type", "admin_token", "--os-endpoint", old.url, "--os-token", "admin")
    return shell.run([*cloud, "placement", "query", "replay", "--queries", log, *arguments])


def shapes(outcome: shell.Outcome) -> dict[str, dict[str, Any]]:
    return {row["shape"]: row for row in json.loads(outcome.stdout)}


PLAIN = "resources=VCPU"
WITH_TRAIT = "required resources=VCPU"


def test_equal_services_have_equal_answers_and_are_only_read(
    old: Loopback, new: Service, log: str
) -> None:
    outcome = replayed(old, log, "--against", new.url, "-f", "json")
    assert outcome.code == 0, outcome
    by_shape = shapes(outcome)
    assert {name: (row["queries"], row["times"]) for name, row in by_shape.items()} == {
        PLAIN: (2, 4), WITH_TRAIT: (2, 3), "resources=VGPU": (1, 1),
    }  # fmt: skip
    assert by_shape[PLAIN]["not_compared"] == [LIMITED]
    for row in by_shape.values():
        assert 0 < row["median_after"] <= row["p95_after"] <= row["worst_after"]
        assert row["lost"] == row["changed"] == row["errors"] == []
    for side in (old, new):
        if isinstance(side, targets.RealPlacement):
            continue
        sent = collections.Counter((item.method, item.path) for item in side.requests)
        assert sent == {("GET", "/allocation_candidates"): len(QUERIES), ("GET", "/"): 1}
    assert "lost: 0, changed: 0, not compared (both end at the limit): 1." in outcome.stderr
    assert "Lines without a query: 1" in outcome.stderr


def test_a_removed_trait_is_a_lost_answer_and_a_new_one_a_changed_answer(
    old: Loopback, new: Service, log: str
) -> None:
    client = new.client()
    for item in client.list_providers(required=[TRAIT])[:1]:
        present = client.list_provider_traits(item.uuid)
        kept = [name for name in present.traits if name != TRAIT]
        client.replace_provider_traits(item.uuid, present.generation, kept)
    outcome = replayed(old, log, "--against", new.url, "-f", "json")
    row = shapes(outcome)[WITH_TRAIT]
    assert (outcome.code, len(row["lost"]), row["changed"]) == (3, 2, [])
    assert not shapes(outcome)[PLAIN]["lost"]
    assert "1 lost" in outcome.stderr
    back = replayed(new, log, "--against", old.url, "-f", "json")
    row = shapes(back)[WITH_TRAIT]
    assert (back.code, row["lost"], len(row["changed"])) == (3, [], 2)


def test_a_service_that_fails_once_is_asked_again(old: Loopback, other: Loopback, log: str) -> None:
    other.before(traffic.nth(2, traffic.refuse(503, "the service restarts")))
    outcome = replayed(old, log, "--against", other.url, "-f", "json")
    assert outcome.code == 0, outcome
    assert all(row["errors"] == [] for row in shapes(outcome).values())
    assert len(other.requests) == len(old.requests) + 1


@pytest.mark.parametrize("refusing", [1, 2])
def test_a_changed_policy_is_a_lost_answer_and_a_query_refused_by_both_is_unknown(
    old: Loopback, other: Loopback, log: str, refusing: int
) -> None:

    def refuse(request: traffic.Request) -> traffic.Reply | None:
        forbidden = traffic.refuse(403, "policy does not allow it")
        return forbidden(request) if request.path == "/allocation_candidates" else None

    for side in (other, old)[:refusing]:
        side.before(refuse)
    outcome = replayed(old, log, "--against", other.url, "-f", "json")
    lost = sum(len(row["lost"]) for row in shapes(outcome).values())
    assert (outcome.code, lost) == ((3, len(QUERIES)) if refusing == 1 else (4, 0))
    assert (f"not compared: {len(QUERIES)}, such as" in outcome.stderr) is (refusing == 2)
    assert all("policy does not allow it" in row["errors"][0] for row in shapes(outcome).values())
    assert {row["median_after"] for row in shapes(outcome).values()} == {None}


@pytest.mark.parametrize(("percent", "code"), [("0", 3), ("50", 3), ("1000000", 0)])
def test_a_slower_service_is_found_from_the_given_share_on(
    old: Loopback,
    other: Loopback,
    log: str,
    percent: str,
    code: int,
) -> None:
    other.before(traffic.slow(0.1))
    outcome = replayed(old, log, "--against", other.url, "--slower", percent, "-f", "json")
    assert outcome.code == code, outcome
    assert ("Slower: " in outcome.stderr) is (code == 3)
    assert all(row["median_after"] >= 100 > row["median"] for row in shapes(outcome).values())


def test_what_cannot_be_compared_is_an_error(
    old: Loopback,
    other: Loopback,
    log: str,
    tmp_path: pathlib.Path,
) -> None:
    of_nova = tmp_path / "nova.log"
    of_nova.write_text('10.0.0.1 "GET /v2.1/servers/detail" status: 200\n')
    unused = "http://127.0.0.1:9"
    table = [
        (log, old.url, (), 1, "to the same service twice"),
        (log, f"{old.url}/".replace("http://", "HTTP://"), (), 1, "to the same service twice"),
        (log, "new.example.org", (), 1, "is not the URL of a Placement service"),
        (log, "http://h:port/", (), 1, "has no valid port"),
        (log, unused, (), 1, unused),
        (str(of_nova), other.url, (), 1, "has no query of allocation candidates in 1 lines"),
        (str(tmp_path / "absent"), other.url, (), 1, "absent"),
        (log, other.url, ("cloud.sqlite",), 2, "not allowed with snapshots, --after"),
        (log, other.url, ("--percent", "0"), 2, "not allowed with snapshots, --after"),
        (log, other.url, ("--slower", "x"), 2, "'x' is not a number"),
    ]
    for file, url, arguments, code, text in table:
        outcome = replayed(old, file, "--against", url, *arguments)
        assert (outcome.code, text in outcome.stderr) == (code, True), (url, outcome)
    sent = [item for side in (old, other) for item in side.requests]
    assert not [item for item in sent if item.path == "/allocation_candidates"]
    outcome = replayed(old, log, "--slower", "5")
    assert (outcome.code, "needs --against" in outcome.stderr) == (2, True)
    on_file = ("--os-placement-database", str(tmp_path / "x.sqlite"))
    replay = ("placement", "query", "replay", "--queries", log, "--against", other.url)
    local = shell.run([*on_file, *replay])
    text = "--against measures a service: select a cloud"
    assert (local.code, text in local.stderr) == (1, True), local
