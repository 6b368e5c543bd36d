"""The mirror as a whole: what is asked, what is kept, and what a user without rights hears."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.client import api_errors
from osc_placement.nova import api
from osc_placement.plan import apply, file, result
from osc_placement.workflows import context
from osc_placement.workflows.mirror import observe, record
from tests.support import fake_placement, plans


class FakeNova:
    """Host aggregates as ``{name: [host]}``; every known host has one compute node."""

    source = ""

    def __init__(self, aggregates: dict[str, list[str]], hosts: list[str]) -> None:
        self.aggregates, self.hosts = aggregates, hosts
        self.asked: list[str] = []
        self.forbidden: set[str] = set()
        self.before: Callable[[str], None] = lambda path: None

    def ask(self, path: str, version: str) -> Any:
        self.before(path)
        self.asked.append(path)
        what = path.partition("?")[0]
        if what in self.forbidden:
            rule = f"os_compute_api:{what[1:]}:index"
            raise api.NovaRefused(403, f"Policy doesn't allow {rule} to be performed.")
        answers: dict[str, Any] = {
            "/os-aggregates": {
                "aggregates": [
                    {
                        "id": number,
                        "name": name,
                        "uuid": fake_placement.uuid_of(name),
                        "hosts": hosts,
                    }
                    for number, (name, hosts) in enumerate(self.aggregates.items(), 1)
                ]
            },
            "/os-services": {
                "services": [
                    {"binary": "nova-compute", "host": host, "status": "enabled", "state": "up"}
                    for host in self.hosts
                ]
            },
            "/os-hypervisors/detail": {
                "hypervisors": [
                    {"id": fake_placement.uuid_of(f"{host}."), "hypervisor_hostname": f"{host}."}
                    | {"service": {"host": host}}
                    for host in self.hosts
                ]
            },
        }
        return answers[what]


def cloud(count: int = 6) -> tuple[fake_placement.FakeClient, FakeNova]:
    """Hosts h0 …, the even ones in ``even``, all in ``all``; Placement knows of neither."""
    names = [f"h{number}" for number in range(count)]
    stored = [
        fake_placement.host(f"{name}.", aggregates=(fake_placement.AGGREGATE,)) for name in names
    ]
    return fake_placement.FakeClient(stored), FakeNova({"all": names, "even": names[::2]}, names)


def run(
    client: Any, nova: FakeNova, wish: observe.MirrorRequest | None = None, **options: Any
) -> result.RunReport:
    mirrored = observe.plan_mirror(
        client, nova, wish or observe.MirrorRequest(prune=True), context.ReadContext()
    )
    return plans.apply_new(
        client, mirrored.planned, "placement aggregate mirror", apply.Options(**options)
    )


def members(client: fake_placement.FakeClient, name: str) -> list[str]:
    uuid = fake_placement.uuid_of(name)
    return sorted(item.name for item in client.stored.values() if uuid in item.aggregates)


def test_both_directions_of_drift_are_mended_and_a_second_run_writes_nothing() -> None:
    client, nova = cloud()
    client.stored[fake_placement.uuid_of("h1.")].aggregates += (fake_placement.uuid_of("even"),)
    assert run(client, nova).count(result.Status.APPLIED) == 6
    assert members(client, "all") == [f"h{number}." for number in range(6)]
    assert members(client, "even") == ["h0.", "h2.", "h4."]
    assert all(fake_placement.AGGREGATE in item.aggregates for item in client.stored.values())
    client.calls.clear()
    again = run(client, nova)
    assert (again.count(result.Status.UNCHANGED), client.writes) == (6, 0)


@pytest.mark.parametrize("changed", [0, 1, 40])
def test_a_run_sends_no_more_than_aggregates_and_twice_the_changed_and_a_constant(
    changed: int,
) -> None:
    client, nova = cloud(50)
    run(client, nova)
    for number in range(changed):
        client.stored[fake_placement.uuid_of(f"h{number}.")].aggregates = ()
    client.calls.clear()
    nova.asked.clear()
    run(client, nova)
    assert client.writes == changed
    assert len(client.calls) == 1 + len(nova.aggregates) + 2 * changed
    assert len(nova.asked) == 4


def test_a_dry_run_writes_nothing_and_undo_takes_all_back(tmp_path: pathlib.Path) -> None:
    client, nova = cloud()
    before = {item.name: item.aggregates for item in client.stored.values()}
    assert run(client, nova, dry_run=True).count(result.Status.PLANNED) == 6
    assert client.writes == 0
    path = tmp_path / "undo.json"
    run(client, nova, undo_out=path)
    plans.undo_file(client, file.read(path), path, apply.Options())  # type: ignore[arg-type]
    assert {item.name: item.aggregates for item in client.stored.values()} == before


def test_max_count_is_exact_and_running_again_goes_on() -> None:
    client, nova = cloud()
    limits = apply.executor.Limits(max_count=4)
    first = run(client, nova, limits=limits)
    assert (first.count(result.Status.APPLIED), first.exit_code()) == (4, 5)
    rest = run(client, nova, limits=limits)
    assert (rest.count(result.Status.APPLIED), rest.exit_code()) == (2, 0)


def test_one_bad_host_stops_nobody_and_the_exit_code_tells() -> None:
    client, nova = cloud()
    del client.stored[fake_placement.uuid_of("h3.")]
    nova.aggregates["all"].append("ghost")
    report = run(client, nova)
    assert report.count(result.Status.APPLIED) == 5
    assert report.exit_code() == 6


def test_a_host_that_is_added_while_placement_is_read_is_not_taken_out() -> None:
    client, nova = cloud()
    run(client, nova)
    joined = fake_placement.uuid_of("even")

    def join(method: str, about: str) -> None:
        if "h1" not in nova.aggregates["even"]:
            nova.aggregates["even"].append("h1")
            client.stored[fake_placement.uuid_of("h1.")].aggregates += (joined,)

    client.before_read = join
    run(client, nova)
    assert "h1." in members(client, "even")


def test_an_aggregate_that_nova_deletes_between_two_runs_is_known() -> None:
    client, nova = cloud()
    run(client, nova, dry_run=True)
    run(client, nova)
    del nova.aggregates["even"]
    told = run(client, nova, observe.MirrorRequest())
    assert [item.reason for item in told.results if "even" in item.reason] == [
        "in even, but nova has deleted it: --prune takes it out"
    ] * 3
    run(client, nova)
    assert members(client, "even") == []
    run(client, nova)
    assert record.load(client.target).values == {fake_placement.uuid_of("all"): "all"}


def test_an_aggregate_deleted_before_anybody_looked_is_forgotten_by_its_uuid() -> None:
    client, nova = cloud()
    gone = fake_placement.uuid_of("gone")
    client.stored[fake_placement.uuid_of("h1.")].aggregates = (gone,)
    run(client, nova)
    assert members(client, "gone") == ["h1."]
    run(client, nova, observe.MirrorRequest(forget=(gone.upper(),)))
    assert members(client, "gone") == []


def test_a_record_that_cannot_be_read_is_told_of_and_kept(state_home: pathlib.Path) -> None:
    client, nova = cloud()
    path = record.path_of(client.target)
    path.parent.mkdir(parents=True)
    for text in ("no json", "[]", json.dumps({"format_version": 9})):
        path.write_text(text)
        assert str(path) in run(client, nova, dry_run=True).notes[0]
        assert path.read_text() == text


def test_a_record_that_cannot_be_written_stops_nothing(state_home: pathlib.Path) -> None:
    client, nova = cloud()
    state_home.mkdir(parents=True)
    (state_home / "host-aggregates").write_text("in the way")
    report = run(client, nova)
    assert report.count(result.Status.APPLIED) == 6
    assert "host-aggregates" in report.notes[0]


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (observe.MirrorRequest(hosts=("nobody",)), "no compute host 'nobody'"),
        (
            observe.MirrorRequest(host_aggregates=("rack",)),
            "no nova host aggregate has the name or id 'rack'",
        ),
        (
            observe.MirrorRequest(host_aggregates=("1", "all", "2", "twin")),
            "2 nova host aggregates have",
        ),
        (observe.MirrorRequest(prune=True, providers=("nobody",)), "no resource provider"),
        (observe.MirrorRequest(providers=("h1.",)), "goes with --prune"),
        (observe.MirrorRequest(forget=("even",)), "takes the UUID"),
        (observe.MirrorRequest(forget=(fake_placement.uuid_of("even"),)), "it is 'even'"),
    ],
)
def test_a_wish_that_makes_no_sense_is_named(wish: observe.MirrorRequest, said: str) -> None:
    client, nova = cloud()
    nova.aggregates["3"] = nova.aggregates["twin"] = []
    nova.aggregates["2"] = []
    with pytest.raises(errors.InvalidInput, match=said):
        run(client, nova, wish)
    assert client.counted("list") == 1


def test_all_of_a_wish_that_makes_no_sense_is_told_at_once() -> None:
    with pytest.raises(errors.InvalidInput) as caught:
        run(*cloud(), observe.MirrorRequest(hosts=("x",), host_aggregates=("y",), forget=("z",)))
    assert len(caught.value.reasons) == 3


def test_names_ids_and_uuids_narrow() -> None:
    for word in ("even", "2", fake_placement.uuid_of("even").upper()):
        client, nova = cloud()
        run(client, nova, observe.MirrorRequest(host_aggregates=(word,), hosts=("h0", "h1")))
        assert (members(client, "even"), members(client, "all")) == (["h0."], [])
        assert client.counted("list_providers") == 2


def test_every_right_that_is_missing_is_told_before_any_write() -> None:
    client, nova = cloud()
    nova.forbidden = {"/os-aggregates", "/os-services"}

    def refuse(method: str, about: str) -> None:
        text = "Access was denied\n\n Policy does not allow placement:resource_providers:list to be"
        raise api_errors.ApiError(403, text)

    client.before_read = refuse
    with pytest.raises(errors.InvalidInput) as caught:
        run(client, nova)
    for reason, rule, service in zip(
        caught.value.reasons,
        (
            "os_compute_api:os-aggregates:index",
            "os_compute_api:os-services:index",
            "placement:resource_providers:list",
        ),
        ("nova", "nova", "placement"),
        strict=True,
    ):
        assert f"missing permission in {service}" in reason
        assert rule in reason
    assert client.writes == 0
