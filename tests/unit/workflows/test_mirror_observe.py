# SPDX-License-Identifier: Apache-2.0
"""The mirror: requests, the record of host aggregates, errors and missing permissions."""

from __future__ import annotations

import collections
import json
import pathlib
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.plan import apply, result
from osc_placement.workflows import mirror
from osc_placement.workflows.context import ReadContext
from tests.support import embedded, plans
from tests.support.host_aggregates import FakeNova, cloud, members


def run(
    client: embedded.Client,
    nova: FakeNova,
    request: mirror.MirrorRequest | None = None,
    **options: Any,
) -> result.RunReport:
    planned = mirror.plan_mirror(
        client, nova, request or mirror.MirrorRequest(prune=True), ReadContext()
    )
    return plans.apply_new(client, planned, "placement aggregate mirror", apply.Options(**options))


@pytest.mark.parametrize("changed", [0, 1, 40])
def test_a_run_sends_one_request_per_aggregate_and_two_per_change(
    changed: int,
) -> None:
    client, nova = cloud(50)
    run(client, nova)
    for number in range(changed):
        client.stored(f"h{number}.").set_aggregates()
    client.sent.clear()
    nova.requests.clear()
    run(client, nova)
    assert client.writes == changed
    one = "/resource_providers/{}/aggregates"
    assert client.count() == collections.Counter(
        {
            "GET /resource_providers": 1 + len(nova.aggregates),
            f"GET {one}": changed,
            f"PUT {one}": changed,
        }
    )
    assert len(nova.requests) == 4


def test_a_host_added_while_placement_is_read_is_not_removed() -> None:
    client, nova = cloud()
    run(client, nova)
    joined = embedded.uuid_of("even")

    def join(request: embedded.Request) -> None:
        if "h1" not in nova.aggregates["even"]:
            nova.aggregates["even"].append("h1")
            client.stored("h1.").add_aggregates(joined)

    client.before(join)
    run(client, nova)
    assert "h1." in members(client, "even")


def test_an_aggregate_deleted_between_two_runs_is_recognized() -> None:
    client, nova = cloud()
    run(client, nova, dry_run=True)
    run(client, nova)
    del nova.aggregates["even"]
    report = run(client, nova, mirror.MirrorRequest())
    assert [item.reason for item in report.results if "even" in item.reason] == [
        "in even, but nova has deleted it: --prune removes it"
    ] * 3
    run(client, nova)
    assert members(client, "even") == []
    run(client, nova)
    assert mirror.load_record(client.target).values == {embedded.uuid_of("all"): "all"}


def test_an_aggregate_deleted_before_the_first_run_is_pruned_by_its_uuid() -> None:
    client, nova = cloud()
    gone = embedded.uuid_of("gone")
    client.stored("h1.").set_aggregates(gone)
    run(client, nova)
    assert members(client, "gone") == ["h1."]
    run(client, nova, mirror.MirrorRequest(forget=(gone.upper(),)))
    assert members(client, "gone") == []


def test_an_unreadable_record_is_reported_and_kept(state_home: pathlib.Path) -> None:
    client, nova = cloud()
    path = mirror.load_record(client.target).path
    path.parent.mkdir(parents=True)
    for text in ("no json", "[]", json.dumps({"format_version": 9})):
        path.write_text(text)
        assert str(path) in run(client, nova, dry_run=True).notes[0]
        assert path.read_text() == text


def test_a_record_that_cannot_be_written_does_not_stop_the_run(state_home: pathlib.Path) -> None:
    client, nova = cloud()
    state_home.mkdir(parents=True)
    (state_home / "host-aggregates").write_text("in the way")
    report = run(client, nova)
    assert report.count(result.Status.APPLIED) == 6
    assert "host-aggregates" in report.notes[0]


@pytest.mark.parametrize(
    ("invalid", "message"),
    [
        (mirror.MirrorRequest(hosts=("unknown-host",)), "no compute host 'unknown-host'"),
        (
            mirror.MirrorRequest(host_aggregates=("rack",)),
            "no nova host aggregate has the name or id 'rack'",
        ),
        (
            mirror.MirrorRequest(host_aggregates=("1", "all", "2", "twin")),
            "2 nova host aggregates have",
        ),
        (mirror.MirrorRequest(prune=True, providers=("unknown-host",)), "No resource provider"),
        (mirror.MirrorRequest(providers=("h1.",)), "needs --prune or --forget"),
        (mirror.MirrorRequest(forget=("even",)), "not the UUID"),
        (
            mirror.MirrorRequest(forget=(embedded.uuid_of("even"),)),
            "still has this host aggregate, 'even'",
        ),
    ],
)
def test_an_invalid_request_is_an_error(invalid: mirror.MirrorRequest, message: str) -> None:
    client, nova = cloud()
    nova.aggregates["3"] = nova.aggregates["twin"] = []
    nova.aggregates["2"] = []
    with pytest.raises(errors.InvalidInput, match=message):
        run(client, nova, invalid)
    assert len(client.sent) == 1


def test_all_errors_of_a_request_are_reported() -> None:
    with pytest.raises(errors.InvalidInput) as caught:
        run(*cloud(), mirror.MirrorRequest(hosts=("x",), host_aggregates=("y",), forget=("z",)))
    assert len(caught.value.reasons) == 3


def test_names_ids_and_uuids_select() -> None:
    for word in ("even", "2", embedded.uuid_of("even").upper()):
        client, nova = cloud()
        run(client, nova, mirror.MirrorRequest(host_aggregates=(word,), hosts=("h0", "h1")))
        assert (members(client, "even"), members(client, "all")) == (["h0."], [])
        assert client.count()["GET /resource_providers"] == 2


def test_all_missing_permissions_are_reported_before_any_write() -> None:
    client, nova = cloud()
    nova.forbidden = {"/os-aggregates", "/os-services"}
    text = "Access was denied\n\n Policy does not allow placement:resource_providers:list to be"
    client.before(embedded.refuse(403, text))
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
