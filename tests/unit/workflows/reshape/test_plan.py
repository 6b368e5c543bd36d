"""A reshape with concurrent writers, lost responses, and kills of the process."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from osc_placement import microversion
from osc_placement.client import api, api_errors, transport
from osc_placement.model import allocation, inventory
from osc_placement.plan import apply as plan_apply, change, file, result
from osc_placement.plan.kinds import base, provider as provider_kind
from osc_placement.testing import service
from osc_placement.workflows import context
from osc_placement.workflows.reshape import assign, decide, observe, plan as reshape_plan
from osc_placement.workflows.reshape.document import parse
from tests.support import plans
from tests.support.reshape import cloud_builder
from tests.support.reshape.cloud_builder import uuid_of

OLD = microversion.Microversion(1, 37)
NEW = microversion.MAXIMUM
READING = context.ReadContext(workers=1)
PROVIDERS: dict[str, Any] = {
    "cn1": (None, {"VCPU": 16, "VGPU": 8}),
    "old": ("cn1", {"CUSTOM_FPGA": 2}),
    "cn2": (None, {"VCPU": 16}),
    "share": (None, {"DISK_GB": 100}),
}
CONSUMERS: dict[str, Any] = {
    "one": {"cn1": {"VCPU": 1, "VGPU": 4}, "share": {"DISK_GB": 10}},
    "moving": {"cn1": {"VCPU": 1, "VGPU": 2}, "cn2": {"VCPU": 1}},
    "fpga": {"old": {"CUSTOM_FPGA": 1}},
    "far": {"cn2": {"VCPU": 3}},
}
#: Every kind of step: a trait, a provider, its traits, the reshape, and a deletion.
MOVES = """\
moves:
- {from: cn1, resources: {VGPU: all}, to: {name: gpu, traits: [CUSTOM_VGPU_A]}}
- {from: old, resources: {CUSTOM_FPGA: all}, to: {name: gpu}}
delete: [old]
"""
WRITES = 6


class Killed(BaseException):
    """Simulates kill -9: no error handler catches it."""


class Between:
    """A proxy that calls ``before`` and ``after`` each write with its number."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.writes: list[str] = []
        self.before: Callable[[int, str], None] = lambda number, path: None
        self.after: Callable[[int, str], None] = lambda number, path: None

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        # The check of the policy rule is not a write.
        if environ["REQUEST_METHOD"] == "GET" or environ.get("CONTENT_LENGTH") == "2":
            return self._app(environ, start_response)
        self.writes.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")
        number, path = len(self.writes), self.writes[-1]
        self.before(number, path)
        answer = self._app(environ, start_response)
        self.after(number, path)
        return answer

    def close(self) -> None:
        """The test closes the Placement."""


class Cloud:
    """A Placement that loads the cloud above, a client of it, and the proxy between them."""

    def __init__(self, placement: service.InProcessPlacement) -> None:
        self.placement = placement
        self.between = Between(placement.app)
        self.client = api.Client(transport.in_process(lambda: self.between, "the cloud"), NEW)
        self.rival = placement.client(NEW)
        self.start = self.state()

    def state(self) -> dict[str, Any]:
        return cloud_builder.without_generations(self.placement.app.export())

    def prepare(self, moves: str = MOVES) -> reshape_plan.Prepared:
        request = decide.ReshapeRequest(
            parse.parse(moves, "m"), options=assign.AssignOptions("pack")
        )
        return reshape_plan.plan_reshape(self.client, request, READING)

    def reshape(self, path: pathlib.Path) -> result.RunReport:
        options = plan_apply.Options(plan_out=path, undo_out=path.with_suffix(".undo"))
        return plans.apply_new(self.client, self.prepare().planned, "reshape", options)

    def apply(self, path: pathlib.Path) -> result.RunReport:
        loaded = file.read(path)
        return plans.apply_file(self.client, loaded, path, plan_apply.Options())

    def take_back(self, path: pathlib.Path) -> result.RunReport:
        loaded = file.read(path)
        return plans.undo_file(self.client, loaded, path, plan_apply.Options())

    def consumer(self, name: str, **allocations: dict[str, int]) -> None:
        """Another client changes the allocations of a consumer."""
        client = self.rival.at(OLD)
        before = client.show_allocations(uuid_of(name))
        expected = {uuid_of(key): amounts for key, amounts in allocations.items()}
        owner = {"project_id": "p", "user_id": "u"} if before.project_id is None else {}
        client.replace_allocations(dataclasses.replace(before, allocations=expected, **owner))


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with service.InProcessPlacement(load=cloud_builder.state(PROVIDERS, CONSUMERS)) as placement:
        yield Cloud(placement)


def statuses(report: result.RunReport) -> set[str]:
    return {str(item.status) for item in report.results}


def of(report: result.RunReport, kind: str) -> result.ChangeResult:
    return next(item for item in report.results if item.kind == kind)


def test_the_requests_are_sent_in_order_without_repetition(
    cloud: Cloud, tmp_path: pathlib.Path
) -> None:
    report = cloud.reshape(tmp_path / "plan")
    assert statuses(report) == {"applied"}
    assert [item.partition(" /")[2].partition("/")[0] for item in cloud.between.writes] == [
        "traits",
        "resource_providers",
        "resource_providers",
        "reshaper",
        "resource_providers",
    ]


@pytest.mark.parametrize("number", range(1, WRITES))
@pytest.mark.parametrize("after_write", [False, True])
def test_a_kill_between_any_two_steps_can_be_resumed_and_undone(
    cloud: Cloud, tmp_path: pathlib.Path, number: int, after_write: bool
) -> None:
    def kill(reached: int, _: str) -> None:
        if reached == number:
            raise Killed

    setattr(cloud.between, "after" if after_write else "before", kill)
    path = tmp_path / "plan"
    with pytest.raises(Killed):
        cloud.reshape(path)
    assert all(
        sum(amounts.get("VGPU", 0) for amounts in item["allocations"].values()) in (0, 2, 4)
        for item in cloud.state()["consumers"].values()
    )
    assert statuses(cloud.apply(path)) == {"applied"}
    done = cloud.state()
    assert uuid_of("old") not in done["providers"]
    assert len([one for one in cloud.between.writes if "reshaper" in one]) <= 2
    assert statuses(cloud.take_back(path)) == {"applied"}
    assert cloud.state() == cloud.start


@pytest.mark.parametrize("number", range(1, WRITES))
def test_a_lost_response_is_checked_and_not_repeated(
    cloud: Cloud, tmp_path: pathlib.Path, number: int
) -> None:
    def cut(reached: int, _: str) -> None:
        if reached == number:
            raise requests.exceptions.ConnectionError("cut")

    cloud.between.after = cut
    report = cloud.reshape(tmp_path / "plan")
    assert statuses(report) == {"applied"}
    assert len(cloud.between.writes) == WRITES - 1


@pytest.mark.parametrize("number", range(1, WRITES))
def test_a_kill_during_undo_can_be_resumed(
    cloud: Cloud, tmp_path: pathlib.Path, number: int
) -> None:
    path = tmp_path / "plan"
    cloud.reshape(path)
    cloud.between.writes.clear()

    def kill(reached: int, _: str) -> None:
        if reached == number:
            raise Killed

    cloud.between.after = kill
    with pytest.raises(Killed):
        cloud.take_back(path)
    assert statuses(cloud.take_back(path)) == {"applied"}
    assert cloud.state() == cloud.start


def just_before_the_reshape(cloud: Cloud, write: Callable[[], None]) -> None:
    """Run ``write`` once, between the read and the reshape request."""
    pending = [write]

    def interfere(_: int, path: str) -> None:
        if path == "POST /reshaper" and pending:
            pending.pop()()

    cloud.between.before = interfere


def test_an_unrelated_write_causes_one_more_read(cloud: Cloud, tmp_path: pathlib.Path) -> None:
    def bump() -> None:
        generation = cloud.rival.show_provider(uuid_of("cn1")).generation
        cloud.rival.replace_provider_traits(uuid_of("cn1"), generation, ["HW_CPU_X86_AVX2"])

    just_before_the_reshape(cloud, bump)
    assert statuses(cloud.reshape(tmp_path / "plan")) == {"applied"}
    assert cloud.between.writes.count("POST /reshaper") == 2
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
    assert cloud.between.writes.count("POST /reshaper") == 1
    gone = [item for item in report.results if item.subject.name == "old"]
    assert [item.status for item in gone] == ["planned"]
    assert "a change that it depends on was not applied" in gone[0].reason
    cloud.between.before = lambda number, path: None
    cloud.take_back(tmp_path / "plan")
    left = cloud.state()
    assert left["providers"] == cloud.start["providers"]
    for name, held in allocations.items():
        expected = {uuid_of(key): amounts for key, amounts in held.items()}
        assert left["consumers"].get(uuid_of(name), {"allocations": {}})["allocations"] == expected


def test_a_concurrent_allocation_elsewhere_is_kept(cloud: Cloud, tmp_path: pathlib.Path) -> None:
    held = CONSUMERS["moving"]
    just_before_the_reshape(
        cloud, lambda: cloud.consumer("moving", cn1=held["cn1"], cn2={"VCPU": 5})
    )
    assert statuses(cloud.reshape(tmp_path / "plan")) == {"applied"}
    found = cloud.state()["consumers"][uuid_of("moving")]["allocations"]
    assert found[uuid_of("cn2")] == {"VCPU": 5}


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
    assert cloud.between.writes == []
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
    left = next(item for item in report.results if item.subject.name == "gpu" and item.open)
    assert (left.status, left.reason) == (
        "skipped",
        "it is not empty: it has inventories DISK_GB",
    )
    found = cloud.state()
    assert found["providers"][gpu]["inventories"].keys() == {"DISK_GB"}
    assert found["consumers"] == cloud.start["consumers"]


def test_the_check_of_the_policy_rule_is_retried(cloud: Cloud, tmp_path: pathlib.Path) -> None:
    left = ["cut", "cut"]

    class Cutting:
        def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
            if environ["PATH_INFO"] == "/reshaper" and left:
                raise requests.exceptions.ConnectionError(left.pop())
            return cloud.placement.app(environ, start_response)

        def close(self) -> None:
            """The test closes the Placement."""

    cloud.client = api.Client(transport.in_process(Cutting, "the cloud"), NEW)
    assert statuses(cloud.reshape(tmp_path / "plan")) == {"applied"}
    assert left == []


def test_reading_a_restless_cloud_ends_with_an_error(cloud: Cloud) -> None:
    class Restless:
        def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
            if environ["PATH_INFO"].endswith("/inventories"):
                before = cloud.rival.list_inventories(uuid_of("cn1"))
                cloud.rival.replace_inventories(uuid_of("cn1"), *before)
            return cloud.placement.app(environ, start_response)

        def close(self) -> None:
            """Nothing to close."""

    client = api.Client(transport.in_process(Restless, "the cloud"), NEW)
    with pytest.raises(observe.Restless, match="cn1 changed each time"):
        observe.read_trees(client, [uuid_of("cn1")], READING)


def test_a_consumer_deleted_during_the_read_is_not_in_the_snapshot(cloud: Cloud) -> None:
    class Going:
        def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
            if (
                environ["PATH_INFO"] == f"/allocations/{uuid_of('one')}"
                and uuid_of("one") in (cloud.state()["consumers"])
            ):
                cloud.rival.delete_allocations(uuid_of("one"))
            return cloud.placement.app(environ, start_response)

        def close(self) -> None:
            """Nothing to close."""

    client = api.Client(transport.in_process(Going, "the cloud"), NEW)
    before = observe.read_trees(client, [uuid_of("cn1")], READING)
    assert before.consumers.keys() == {uuid_of("moving"), uuid_of("fpga")}
    assert before.nodes[uuid_of("cn1")].used["VGPU"] == 2


def test_a_snapshot_sends_the_documented_number_of_requests(cloud: Cloud) -> None:
    paths: list[str] = []

    class Counting:
        def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
            paths.append(environ["PATH_INFO"])
            return cloud.placement.app(environ, start_response)

        def close(self) -> None:
            """Nothing to close."""

    client = api.Client(transport.in_process(Counting, "the cloud"), NEW)
    before = observe.read_trees(client, [uuid_of("cn1")], READING)
    inside, consumers, others = 2, 3, 2
    assert len(paths) == 2 + 4 * inside + consumers + 2 * others + 2 * others
    expected = cloud_builder.snapshot_of(cloud.placement.app.export(), "cn1")
    assert before.nodes == expected.nodes
    assert before.consumers == expected.consumers


def test_a_user_without_the_policy_rule_is_refused_before_the_first_write() -> None:
    with service.InProcessPlacement(load=cloud_builder.state(PROVIDERS, CONSUMERS)) as placement:
        before = placement.app.export()

        class Admin:
            def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
                environ["HTTP_X_ROLES"] = "admin"
                return placement.app(environ, start_response)

            def close(self) -> None:
                """The block closes it."""

        client = api.Client(transport.in_process(Admin, "the cloud"), NEW)
        request = decide.ReshapeRequest(
            parse.parse(MOVES, "m"), options=assign.AssignOptions("pack")
        )
        planned = reshape_plan.plan_reshape(client, request, READING).planned
        with pytest.raises(api_errors.Forbidden, match="placement:reshaper:reshape") as caught:
            plans.apply_new(client, planned, "reshape", plan_apply.Options())
        assert "role service" in str(caught.value)
        assert placement.app.export() == before
        placement.client(NEW).check_reshape()
        assert placement.app.export() == before


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
