"""Ports with resource requests: neutron and Placement are told together, or neither is."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from osc_placement.client import api, api_errors
from osc_placement.model import allocation, inventory
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api as nova_api
from osc_placement.plan import apply, change, file, plan, result
from osc_placement.plan.kinds import bound_ports
from osc_placement.testing import service
from osc_placement.workflows.allocations import precondition
from osc_placement.workflows.allocations.heal import choice, observe, plan as heal_plan
from tests.support import watched
from tests.support.clouds import caching_scheduler
from tests.support.clouds.caching_scheduler import USES, uuid_of

EGRESS, INGRESS = "NET_BW_EGR_KILOBIT_PER_SEC", "NET_BW_IGR_KILOBIT_PER_SEC"
BANDWIDTH = {EGRESS: 1000, INGRESS: 1000}
HOST, CARDS = uuid_of("cmp-0000"), [uuid_of("card-1"), uuid_of("card-2")]


class FakeNetwork:
    """Neutron in memory; ``trouble`` is raised by a write before or after it is done."""

    source = ""

    def __init__(self, *ports: dict[str, Any]) -> None:
        self.ports = {port["id"]: port for port in ports}
        self.asked: list[str] = []
        self.before: Callable[[str], None] = lambda path: None
        self.after: Callable[[str], None] = lambda path: None

    def ask(self, path: str) -> Any:
        self.asked.append(path.partition("?")[0])
        recorded = neutron_api.RecordedNeutron(
            {"GET /v2.0/ports": {"ports": [*self.ports.values()]}}, ""
        )
        return recorded.ask(path)

    def write(self, path: str, body: Any, revision: int | None) -> Any:
        self.before(path)
        port = self.ports[path.rpartition("/")[2]]
        if revision != port["revision_number"]:
            raise neutron_api.NeutronRefused(412, "the revision is another")
        port.update(body["port"], revision_number=revision + 1)
        self.after(path)
        return {"port": port}

    def profile(self, name: str) -> Any:
        return self.ports[uuid_of(name)]["binding:profile"]


def port(name: str, server: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": uuid_of(name),
        "name": name,
        "device_id": uuid_of(server),
        "binding:profile": {"pci_slot": "0000:81:00.1"},
        "revision_number": 4,
        "resource_request": {"resources": BANDWIDTH, "required": ["CUSTOM_PHYSNET_A"]},
    } | fields


class Run:
    """One host with cards, its servers, and what a test does to them."""

    def __init__(self, transport: watched.Watched, cards: int, *ports: dict[str, Any]) -> None:
        self.client = api.Client(transport)  # type: ignore[arg-type]
        self.cloud = caching_scheduler.OldCloud(self.client, hosts=1, servers=4)
        self.nova = nova_api.RecordedNova(self.cloud.answers, "")
        self.network = FakeNetwork(*ports)
        self.client.create_trait("CUSTOM_PHYSNET_A")
        for uuid in CARDS[:cards]:
            self.client.create_provider(f"card {uuid}", uuid, HOST)
            offers = {name: inventory.Inventory(total=3000) for name in BANDWIDTH}
            known = self.client.replace_inventories(uuid, 0, offers)
            self.client.replace_provider_traits(uuid, known.generation, ["CUSTOM_PHYSNET_A"])

    def planned(self, strategy: str | None = None) -> plan.ObservedPlan:
        request = heal_plan.Request(wish=choice.HealOptions(strategy))
        return observe.plan_healing(self.client, self.nova, request, ports=self.network)

    def carried_out(self, planned: plan.ObservedPlan, **options: Any) -> result.RunReport:
        kinds = bound_ports.kinds(self.network)
        how = apply.Options(
            broken=precondition.NovaPreconditions(self.nova), kinds=kinds, **options
        )
        return apply.carry_out(self.client, planned, "heal", how)

    def healed(self, **options: Any) -> dict[str, str]:
        report = self.carried_out(self.planned(), **options)
        return {item.subject.name: str(item.status) for item in report.outcomes}

    def held(self, server: str) -> Any:
        return self.client.show_allocations(uuid_of(server)).allocations


@pytest.fixture
def transport() -> Iterator[watched.Watched]:
    with service.InProcessPlacement() as placement:
        yield watched.Watched(placement.client().transport)


def test_a_server_gets_its_ports_device_and_the_port_is_told(transport: watched.Watched) -> None:
    run = Run(transport, 1, port("p", "vm-0003"))
    assert run.healed()["vm-0003"] == "applied"
    assert run.held("vm-0003") == {HOST: USES, CARDS[0]: BANDWIDTH}
    assert run.network.profile("p") == {"pci_slot": "0000:81:00.1", "allocation": CARDS[0]}
    assert run.healed()["vm-0003"] == "unchanged"


def test_a_server_that_lacks_its_ports_alone_keeps_the_rest(transport: watched.Watched) -> None:
    run = Run(transport, 1, port("p", "vm-0001"))
    before = run.client.show_allocations(uuid_of("vm-0001"))
    (item,) = (one for one in run.planned().plan.changes if one.kind == change.BOUND)
    assert item.generation == before.generation
    assert item.reason.startswith(f"on card {CARDS[0]}: {EGRESS}=1000")
    assert run.healed()["vm-0001"] == "applied"
    after = run.client.show_allocations(uuid_of("vm-0001"))
    assert after.allocations == {HOST: USES, CARDS[0]: BANDWIDTH}
    assert after.consumer_type == before.consumer_type


def test_groups_of_the_new_form_are_told_one_by_one(transport: watched.Watched) -> None:
    groups = [
        {"id": uuid_of(name), "resources": {name: 1000}, "required": ["CUSTOM_PHYSNET_A"]}
        for name in BANDWIDTH
    ]
    ids = [group["id"] for group in groups]
    asked = {"request_groups": groups, "same_subtree": ids}
    run = Run(transport, 1, port("p", "vm-0003", resource_request=asked))
    assert run.healed()["vm-0003"] == "applied"
    assert run.network.profile("p")["allocation"] == dict.fromkeys(ids, CARDS[0])


def test_which_of_two_cards_it_is_is_the_operators_to_say(transport: watched.Watched) -> None:
    run = Run(transport, 2, port("p", "vm-0003"))
    (left,) = (item for item in run.planned().plan.remarks if not item.unchanged)
    assert "ambiguous: it is on card" in left.reason
    assert "guessed (spread)" in run.planned("spread").plan.changes[-1].reason


def test_a_port_is_taken_at_its_word(transport: watched.Watched) -> None:
    profile = {"allocation": CARDS[1]}
    run = Run(transport, 2, port("p", "vm-0003", **{"binding:profile": profile}))
    assert run.healed()["vm-0003"] == "applied"
    assert run.held("vm-0003") == {HOST: USES, CARDS[1]: BANDWIDTH}


def test_what_a_server_has_for_a_port_that_does_not_tell_is_not_allocated_twice(
    transport: watched.Watched,
) -> None:
    run = Run(transport, 2, port("p", "vm-0003"))
    whole = dataclasses.replace(
        run.cloud.consumer(3), allocations={HOST: USES, CARDS[1]: BANDWIDTH}
    )
    run.client.write_allocations([whole])
    assert run.healed()["vm-0003"] == "applied"
    assert run.network.profile("p")["allocation"] == CARDS[1]
    assert run.held("vm-0003") == whole.allocations
    assert run.healed()["vm-0003"] == "unchanged"


def refuse(status: int) -> Callable[[str, Any], None]:
    def before(request: str, _: Any) -> None:
        if request.startswith("PUT /allocations"):
            raise api_errors.from_status(status, "no", method="PUT")

    return before


def test_a_port_is_put_back_when_placement_refuses(transport: watched.Watched) -> None:
    run = Run(transport, 1, port("p", "vm-0003"))
    transport.before = refuse(409)
    assert run.healed()["vm-0003"] == "failed"
    assert run.network.profile("p") == {"pci_slot": "0000:81:00.1"}
    assert not run.held("vm-0003")


def test_a_port_that_cannot_be_put_back_is_told_of(transport: watched.Watched) -> None:
    run = Run(transport, 1, port("p", "vm-0003"))
    planned = run.planned()

    def spoil(request: str, body: Any) -> None:
        if request == f"PUT /allocations/{uuid_of('vm-0003')}":
            run.network.ports[uuid_of("p")]["revision_number"] += 1
        refuse(409)(request, body)

    transport.before = spoil
    reasons = [item.reason for item in run.carried_out(planned).outcomes]
    assert any("could not be put back" in reason for reason in reasons)


def test_placement_is_not_asked_when_neutron_refuses(transport: watched.Watched) -> None:
    run = Run(transport, 1, port("p", "vm-0003"))

    def refused(path: str) -> None:
        raise neutron_api.NeutronRefused(403, f"neutron, PUT {path}: no")

    run.network.before = refused
    run.healed()
    assert not run.held("vm-0003")


@pytest.mark.parametrize("carried_out", [False, True])
def test_a_lost_answer_is_looked_into(transport: watched.Watched, carried_out: bool) -> None:
    run = Run(transport, 1, port("p", "vm-0003"))
    planned, lost = run.planned(), []

    def lose(request: str, _: Any) -> None:
        if request.startswith("PUT /allocations") and not lost:
            lost.append(request)
            raise api_errors.OutcomeUnknown(0, "cut")

    setattr(transport, "after" if carried_out else "before", lose)
    report = run.carried_out(planned)
    assert {str(item.status) for item in report.outcomes} == {"applied", "unchanged"}
    assert lost
    assert run.held("vm-0003") == {HOST: USES, CARDS[0]: BANDWIDTH}
    assert run.network.profile("p")["allocation"] == CARDS[0]


@pytest.mark.parametrize("carried_out", [False, True])
def test_a_lost_answer_of_neutrons_is_looked_into(
    transport: watched.Watched, carried_out: bool
) -> None:
    run = Run(transport, 1, port("p", "vm-0003"))
    planned, lost = run.planned(), []

    def lose(path: str) -> None:
        if not lost:
            lost.append(path)
            raise api_errors.OutcomeUnknown(0, "cut")

    setattr(run.network, "after" if carried_out else "before", lose)
    report = run.carried_out(planned)
    assert {str(item.status) for item in report.outcomes} == {"applied", "unchanged"}
    assert run.held("vm-0003") == {HOST: USES, CARDS[0]: BANDWIDTH}
    assert run.network.profile("p")["allocation"] == CARDS[0]


@pytest.mark.parametrize("anew", [False, True])
def test_a_kill_between_neutron_and_placement_is_gone_on_from(
    transport: watched.Watched, tmp_path: pathlib.Path, anew: bool
) -> None:
    run = Run(transport, 1, port("p", "vm-0003"))
    path = tmp_path / "plan.json"
    run.carried_out(run.planned(), dry_run=True, plan_out=path)

    def kill(request: str, _: Any) -> None:
        if request.startswith("PUT /allocations"):
            raise KeyboardInterrupt

    transport.before = kill
    made = file.read(path)
    kinds = bound_ports.kinds(run.network)
    how = apply.Options(broken=precondition.eyes(run.nova, made.created), kinds=kinds)
    with pytest.raises(KeyboardInterrupt):
        apply.apply(run.client, made, path, how)
    assert run.network.profile("p")["allocation"] == CARDS[0]
    assert not run.held("vm-0003")
    transport.before = lambda request, body: None
    if anew:
        run.healed()
    else:
        apply.apply(run.client, made, path, how)
    assert run.held("vm-0003") == {HOST: USES, CARDS[0]: BANDWIDTH}


def test_undo_takes_back_both_and_needs_neutron(
    transport: watched.Watched, tmp_path: pathlib.Path
) -> None:
    run = Run(transport, 1, port("p", "vm-0003"))
    path = tmp_path / "undo.json"
    run.healed(undo_out=path)
    made = file.read(path)
    with pytest.raises(plan.PlanRefused, match="neutron cannot be asked"):
        apply.take_back(run.client, made, path, apply.Options())
    how = apply.Options(kinds=bound_ports.kinds(run.network))
    report = apply.take_back(run.client, made, path, how)
    assert collections.Counter(str(item.status) for item in report.outcomes)["applied"] >= 1
    assert run.network.profile("p") == {"pci_slot": "0000:81:00.1"}
    assert not run.held("vm-0003")


def test_neutron_is_asked_once_for_many_servers(transport: watched.Watched) -> None:
    run = Run(transport, 0)
    run.planned()
    assert run.network.asked == ["/ports"]
    servers = [uuid_of(str(number)) for number in range(130)]
    run.network.asked.clear()
    assert neutron_api.ports_of(run.network, servers) == []
    assert run.network.asked == ["/ports"] * 3


def test_a_rehearsal_allocates_and_leaves_neutron_alone(transport: watched.Watched) -> None:
    run = Run(transport, 1, port("p", "vm-0003"))
    recorded = {"GET /v2.0/ports (a stand-in)": {"ports": [*run.network.ports.values()]}}
    asked = neutron_api.RecordedNeutron(recorded, "a recording")
    made = observe.plan_healing(run.client, run.nova, heal_plan.Request(), ports=asked).plan
    assert {item.kind for item in made.changes} == {change.ALLOCATIONS}
    assert made.changes[-1].after[f"{CARDS[0]}:{EGRESS}"] == 1000


def test_a_consumer_is_whole_in_the_change(transport: watched.Watched) -> None:
    run = Run(transport, 1, port("p", "vm-0003"))
    (item,) = (one for one in run.planned().plan.changes if one.kind == change.BOUND)
    told = {key: value for key, value in item.after.items() if key.startswith("port ")}
    assert told == {f"port {uuid_of('p')}:{uuid_of('p')}": CARDS[0]}
    assert change.Change.from_dict(item.to_dict()) == item
    assert isinstance(run.client.show_allocations(item.subject.uuid), allocation.Consumer)
