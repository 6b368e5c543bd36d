# SPDX-License-Identifier: Apache-2.0
"""A reshape with concurrent writers, lost responses, and kills of the process."""

from __future__ import annotations

import dataclasses
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from osc_placement import microversion
from osc_placement.client import api, api_errors, retry, wsgi
from osc_placement.model import allocation, inventory
from osc_placement.plan import apply as plan_apply, attempt, change, executor, journal, result
from osc_placement.plan.kinds import base, provider as provider_kind
from osc_placement.testing import service
from osc_placement.workflows.reshape import assignment, documents, observe, reshape_plan
from tests.support import embedded, plans, scripted
from tests.support.embedded import uuid_of
from tests.support.reshape import cloud_builder
from tests.support.reshape.interrupted import (
    CONSUMERS,
    MOVES,
    OLD,
    PROVIDERS,
    READING,
    WRITES,
    Cloud,
)

_DESCRIBED = """\
providers:
- {name: spare, parent: cn1, traits: [CUSTOM_A], aggregates: [3f1c6a52-7b0e-4d8e-9a55-0c2f6a7d1e11]}
"""


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


def statuses(report: result.RunReport) -> set[str]:
    return {str(item.status) for item in report.results}


def of(report: result.RunReport, kind: str) -> result.ChangeResult:
    return next(item for item in report.results if item.kind == kind)


def test_the_requests_are_sent_in_order_without_repetition(
    cloud: Cloud, tmp_path: pathlib.Path
) -> None:
    report = cloud.reshape(tmp_path / "plan")
    assert statuses(report) == {"applied"}
    assert cloud.writes == [
        "PUT /traits/{}",
        "POST /resource_providers",
        "PUT /resource_providers/{}/traits",
        "POST /reshaper",
        "DELETE /resource_providers/{}",
    ]


@pytest.mark.parametrize("number", range(1, WRITES))
@pytest.mark.parametrize("after_write", [False, True])
def test_a_kill_between_any_two_steps_can_be_resumed_and_undone(
    cloud: Cloud, tmp_path: pathlib.Path, number: int, after_write: bool
) -> None:
    act = cloud.client.after_write if after_write else cloud.client.before_write
    act(embedded.nth(number, embedded.kill))
    path = tmp_path / "plan"
    with pytest.raises(embedded.Killed):
        cloud.reshape(path)
    assert all(
        sum(amounts.get("VGPU", 0) for amounts in item["allocations"].values()) in (0, 2, 4)
        for item in cloud.state()["consumers"].values()
    )
    assert statuses(cloud.apply(path)) == {"applied"}
    done = cloud.state()
    assert uuid_of("old") not in done["providers"]
    assert cloud.writes.count("POST /reshaper") <= 2
    assert statuses(cloud.take_back(path)) == {"applied"}
    assert cloud.state() == cloud.start


@pytest.mark.parametrize("number", range(1, WRITES))
def test_a_lost_response_is_checked_and_not_repeated(
    cloud: Cloud, tmp_path: pathlib.Path, number: int
) -> None:
    cloud.client.after_write(embedded.nth(number, embedded.cut))
    report = cloud.reshape(tmp_path / "plan")
    assert statuses(report) == {"applied"}
    assert len(cloud.writes) == WRITES - 1


@pytest.mark.parametrize("number", range(1, WRITES))
def test_a_kill_during_undo_can_be_resumed(
    cloud: Cloud, tmp_path: pathlib.Path, number: int
) -> None:
    path = tmp_path / "plan"
    cloud.reshape(path)
    cloud.client.after_write(embedded.nth(number, embedded.kill))
    with pytest.raises(embedded.Killed):
        cloud.take_back(path)
    assert statuses(cloud.take_back(path)) == {"applied"}
    assert cloud.state() == cloud.start


def just_before_the_reshape(cloud: Cloud, write: Callable[[], None]) -> None:
    """Run ``write`` once, between the read and the reshape request."""
    first = embedded.nth(1, lambda request: write())
    cloud.client.before_write(embedded.at("POST /reshaper", first))


def test_an_unrelated_write_causes_one_more_read(cloud: Cloud, tmp_path: pathlib.Path) -> None:
    def bump() -> None:
        generation = cloud.rival.show_provider(uuid_of("cn1")).generation
        cloud.rival.replace_provider_traits(uuid_of("cn1"), generation, ["HW_CPU_X86_AVX2"])

    just_before_the_reshape(cloud, bump)
    assert statuses(cloud.reshape(tmp_path / "plan")) == {"applied"}
    assert cloud.writes.count("POST /reshaper") == 2
    assert cloud.state()["providers"][uuid_of("cn1")]["traits"] == ["HW_CPU_X86_AVX2"]


@pytest.mark.parametrize(
    "allocations",
    [
        {"new": {"cn1": {"VGPU": 1}}},
        {"one": {"cn1": {"VCPU": 1, "VGPU": 2}}},
        {"one": {}},
        {"moving": {"cn2": {"VCPU": 1}}},
    ],
    ids=["appears", "shrinks", "goes", "leaves"],
)
def test_a_relevant_concurrent_write_makes_the_reshape_stale(
    cloud: Cloud, tmp_path: pathlib.Path, allocations: dict[str, Any]
) -> None:
    def write() -> None:
        for name, held in allocations.items():
            cloud.consumer(name, **held)

    just_before_the_reshape(cloud, write)
    report = cloud.reshape(tmp_path / "plan")
    assert of(report, "reshape").status == "stale"
    assert cloud.writes.count("POST /reshaper") == 1
    gone = [item for item in report.results if item.subject.name == "old"]
    assert [item.status for item in gone] == ["planned"]
    assert "a change that it depends on was not applied" in gone[0].reason
    cloud.client.before(embedded.nothing)
    cloud.take_back(tmp_path / "plan")
    left = cloud.state()
    assert left["providers"] == cloud.start["providers"]
    for name, held in allocations.items():
        expected = {uuid_of(key): amounts for key, amounts in held.items()}
        assert left["consumers"].get(uuid_of(name), {"allocations": {}})["allocations"] == expected


def test_a_concurrent_allocation_elsewhere_is_kept(cloud: Cloud, tmp_path: pathlib.Path) -> None:
    allocations = CONSUMERS["moving"]
    just_before_the_reshape(
        cloud, lambda: cloud.consumer("moving", cn1=allocations["cn1"], cn2={"VCPU": 5})
    )
    assert statuses(cloud.reshape(tmp_path / "plan")) == {"applied"}
    allocations_after = cloud.state()["consumers"][uuid_of("moving")]["allocations"]
    assert allocations_after[uuid_of("cn2")] == {"VCPU": 5}


def test_undo_is_stale_once_other_consumers_use_the_provider(
    cloud: Cloud, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "plan"
    cloud.reshape(path)
    gpu = cloud.rival.list_providers(name="gpu")[0].uuid
    cloud.rival.at(OLD).replace_allocations(
        allocation.Consumer(uuid_of("late"), {gpu: {"VGPU": 1}}, "p", "u")
    )
    before = cloud.state()["consumers"]
    stale = of(cloud.take_back(path), "reshape")
    assert stale.status == "stale"
    assert stale.reason == f"changed concurrently to others {gpu} VGPU=1 instead of 0"
    assert cloud.state()["consumers"] == before


def test_a_version_without_new_parents_is_refused_before_the_first_step(
    cloud: Cloud, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "plan"
    moves = f"{MOVES}providers: [{{name: old, parent: cn2}}]\n".replace("delete: [old]\n", "")
    plans.apply_new(
        cloud.client,
        cloud.prepare(moves).planned,
        "reshape",
        plan_apply.Options(plan_out=path, dry_run=True),
    )
    newer, cloud.client = cloud.client, cloud.client.at(microversion.Microversion(1, 36))
    with pytest.raises(api_errors.UnsupportedVersion, match=r"at least version 1\.37"):
        cloud.apply(path)
    assert cloud.writes == []
    cloud.client = newer
    assert statuses(cloud.apply(path)) == {"applied"}


def test_a_stale_change_reports_only_the_difference(cloud: Cloud, tmp_path: pathlib.Path) -> None:
    cloud.reshape(tmp_path / "plan")
    gpu = cloud.rival.list_providers(name="gpu")[0].uuid
    present = cloud.rival.list_inventories(gpu)
    grown = {
        **present.inventories,
        "VGPU": dataclasses.replace(present.inventories["VGPU"], total=9, max_unit=9),
    }
    cloud.rival.replace_inventories(gpu, present.generation, grown)
    stale = of(cloud.take_back(tmp_path / "plan"), "reshape")
    assert stale.reason == f"changed concurrently to inventory {gpu} VGPU:total=9 instead of 8"


def test_a_provider_with_a_new_inventory_is_not_deleted(
    cloud: Cloud, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "plan"
    cloud.reshape(path)
    gpu = cloud.rival.list_providers(name="gpu")[0].uuid
    before = cloud.rival.list_inventories(gpu)
    more = {**before.inventories, "DISK_GB": inventory.Inventory(7)}
    cloud.rival.replace_inventories(gpu, before.generation, more)
    report = cloud.take_back(path)
    left = next(item for item in report.results if item.status == "refused")
    assert (left.subject.name, left.code, left.reason) == (
        "gpu",
        "not-empty",
        "it is not empty: it has inventories DISK_GB",
    )
    state = cloud.state()
    assert state["providers"][gpu]["inventories"].keys() == {"DISK_GB"}
    assert state["consumers"] == cloud.start["consumers"]


def test_undo_continues_if_a_created_provider_is_already_deleted(
    cloud: Cloud, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "plan"
    cloud.reshape(path, MOVES + _DESCRIBED)
    cloud.rival.delete_provider(cloud.rival.list_providers(name="spare")[0].uuid)
    report = cloud.take_back(path)
    assert statuses(report) <= {"applied", "unchanged"}
    assert cloud.state() == cloud.start


def test_the_check_of_the_policy_rule_is_retried(cloud: Cloud, tmp_path: pathlib.Path) -> None:
    left = ["cut", "cut"]

    def cut(request: embedded.Request) -> None:
        if left:
            left.pop()
            embedded.cut(request)

    cloud.client.before(embedded.at("POST /reshaper", cut))
    assert statuses(cloud.reshape(tmp_path / "plan")) == {"applied"}
    assert left == []


class Clock(threading.Event):
    """Waiting takes no time, but the clock advances."""

    now = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        self.now += timeout or 0.0
        return self.is_set()

    def sleep(self, seconds: float) -> None:
        """The pause between requests."""
        self.now += seconds


def test_a_service_that_requests_long_pauses_stops_the_run_after_a_minute(cloud: Cloud) -> None:
    pause = {"Retry-After": "25"}
    cloud.client.before_write(
        embedded.at("POST /reshaper", lambda request: scripted.Reply(503, headers=pause))
    )
    moves = "moves: [{from: cn1, resources: {VCPU: 1}, to: {name: numa0}}]"
    changes = cloud.prepare(moves).planned.plan.changes
    clock = Clock()
    cloud.client.transport.pace = retry.Pace(lambda: clock.now, clock.sleep)
    context = attempt.RunContext(
        base.Services(cloud.client), journal.MemoryJournal(), clock, clock=lambda: clock.now
    )
    run = executor.execute(changes, context, executor.RunLimits(workers=1))
    (failed,) = [item for item in run.results if item.kind == "reshape"]
    assert "given up after 3 attempts in 50 s: POST /reshaper" in failed.reason
    assert cloud.writes.count("POST /reshaper") == 3
    assert "HTTP 503" in run.halted


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_user_without_the_policy_rule_is_refused_before_the_first_write(
    dry_run: bool, tmp_path: pathlib.Path
) -> None:
    with service.InProcessPlacement(load=cloud_builder.state(PROVIDERS, CONSUMERS)) as placement:
        before = placement.app.export()

        class Admin:
            def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
                environ["HTTP_X_ROLES"] = "admin"
                return placement.app(environ, start_response)

            def close(self) -> None:
                """The block closes it."""

        client = api.Client(wsgi.in_process(Admin, "the cloud"), microversion.MAXIMUM)
        request = reshape_plan.ReshapeRequest(
            documents.parse(MOVES, "m"), options=assignment.AssignOptions("pack")
        )
        planned = reshape_plan.plan_reshape(client, request, READING).planned
        made, options = planned.stamped(client, "reshape"), plan_apply.Options(dry_run=dry_run)
        with pytest.raises(api_errors.Forbidden, match="placement:reshaper:reshape") as caught:
            plans.apply_file(client, made.plan, tmp_path / "plan", options)
        assert "role service" in str(caught.value)
        assert placement.app.export() == before
        placement.client().check_reshape()
        assert placement.app.export() == before


def test_a_custom_class_that_no_tree_has_is_known_to_the_rehearsal(
    cloud: Cloud, tmp_path: pathlib.Path
) -> None:
    cloud.rival.create_resource_class("CUSTOM_OTHER")
    moves = "moves: [{from: cn1, resources: {VGPU: all}, to: cn1, as: {VGPU: CUSTOM_OTHER}}]"
    assert statuses(cloud.reshape(tmp_path / "plan", moves)) == {"applied"}
    inventories = cloud.rival.list_inventories(uuid_of("cn1")).inventories
    assert inventories.keys() == {"VCPU", "CUSTOM_OTHER"}


def test_a_provider_created_by_a_concurrent_run_is_accepted() -> None:
    subject = change.Subject("gpu", uuid_of("gpu"))
    absent = change.Observed(None, provider_kind.ABSENT)
    pending = base.Write(subject, provider_kind.ProviderState("gpu", None), absent)
    with service.InProcessPlacement() as placement:
        client = placement.client()
        client.create_provider("gpu", uuid_of("gpu"))
        services = base.Services(client)
        assert provider_kind.TYPE.write(services, pending).state == pending.after
        client.update_provider(uuid_of("gpu"), "other")
        with pytest.raises(api_errors.Conflict):
            provider_kind.TYPE.write(services, pending)


def test_reading_a_cloud_that_changes_ends_with_an_error(cloud: Cloud) -> None:
    def write(request: embedded.Request) -> None:
        before = cloud.rival.list_inventories(uuid_of("cn1"))
        cloud.rival.replace_inventories(uuid_of("cn1"), before.generation, before.inventories)

    cloud.client.before(embedded.at("GET /resource_providers/{}/inventories", write))
    with pytest.raises(observe.ChangedDuringRead, match="cn1 changed each time"):
        observe.read_trees(cloud.client, [uuid_of("cn1")], READING)


def test_a_consumer_deleted_during_the_read_is_not_in_the_snapshot(cloud: Cloud) -> None:
    def delete(request: embedded.Request) -> None:
        cloud.rival.delete_allocations(request.subject)

    cloud.client.before(embedded.about("one", embedded.once_each(delete)))
    before = observe.read_trees(cloud.client, [uuid_of("cn1")], READING)
    assert before.consumers.keys() == {uuid_of("moving"), uuid_of("fpga")}
    assert before.nodes[uuid_of("cn1")].used["VGPU"] == 2


def test_a_snapshot_sends_the_documented_number_of_requests(cloud: Cloud) -> None:
    before = observe.read_trees(cloud.client, [uuid_of("cn1")], READING)
    inside, consumers, others = 2, 3, 2
    assert len(cloud.client.sent) == 2 + 4 * inside + consumers + 2 * others + 2 * others
    assert {node.provider.name: node.used for node in before.nodes.values()} == {
        "cn1": {"VCPU": 2, "VGPU": 6},
        "old": {"CUSTOM_FPGA": 1},
        "cn2": {"VCPU": 4},
        "share": {"DISK_GB": 10},
    }
    assert before.consumers.keys() == {*map(uuid_of, ("one", "moving", "fpga"))}
