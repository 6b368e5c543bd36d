"""Laws of reshapes over random trees, inventories, consumers and moves, on the embedded server."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import hypothesis
from hypothesis import strategies

from osc_placement import microversion
from osc_placement.client import api, errors
from osc_placement.model import inventory
from osc_placement.testing import service
from osc_placement.workflows import batch, execute, journal, outcome, plan, settle, undo
from osc_placement.workflows.reshape import document, invariant, observe, run, solve
from tests.unit.workflows.reshape import world

CLASSES = ("VGPU", "VCPU", "CUSTOM_FPGA")
READING = batch.Reading(workers=2)
FEW = hypothesis.settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.filter_too_much],
)


@dataclasses.dataclass(frozen=True)
class Case:
    """A cloud and what shall be moved in it."""

    state: dict[str, Any]
    moves: str
    strategy: Any


@strategies.composite
def cases(draw: Callable[[Any], Any]) -> Case:
    providers: dict[str, Any] = {}
    for root in range(draw(strategies.integers(1, 3))):
        providers[f"host{root}"] = (None, draw(_offers(1)))
        for child in range(draw(strategies.integers(0, 2))):
            providers[f"host{root}_{child}"] = (f"host{root}", draw(_offers(0)))
    providers["share"] = (None, {"DISK_GB": 1000})
    consumers = {}
    used: dict[tuple[str, str], int] = {}
    for number in range(draw(strategies.integers(0, 6))):
        held = _held(draw, providers, used)
        if held:
            consumers[f"consumer{number}"] = {**held, "share": {"DISK_GB": 5}}
    moves = draw(strategies.lists(_moves(providers), min_size=1, max_size=3))
    text = "moves:\n" + "".join(f"- {line}\n" for line in moves)
    strategy = draw(strategies.sampled_from([None, "pack", "spread", "same-order"]))
    return Case(world.state(providers, consumers), text, strategy)


def _offers(least: int) -> Any:
    offer = strategies.builds(
        lambda total, ratio, step, whole: {
            "total": total,
            "allocation_ratio": ratio,
            "step_size": step,
            "max_unit": total if whole else 100,
        },
        strategies.integers(1, 12),
        strategies.sampled_from([1.0, 1.0, 1.5]),
        strategies.sampled_from([1, 1, 2]),
        strategies.booleans(),
    )
    return strategies.dictionaries(strategies.sampled_from(CLASSES), offer, min_size=least)


def _held(draw: Any, providers: dict[str, Any], used: dict[tuple[str, str], int]) -> Any:
    """What one consumer takes, here and there, of what is left."""
    held: dict[str, dict[str, int]] = {}
    wanted = strategies.lists(
        strategies.tuples(strategies.sampled_from(sorted(providers)), strategies.integers(1, 4)),
        max_size=3,
        unique_by=lambda item: item[0],
    )
    for name, amount in draw(wanted):
        for resource_class, told in providers[name][1].items():
            if not isinstance(told, dict):
                continue
            offered = inventory.Inventory(**told)
            taken = used.get((name, resource_class), 0)
            if offered.suits_units(amount) and offered.has_room(taken, amount):
                used[name, resource_class] = taken + amount
                held.setdefault(name, {})[resource_class] = amount
    return held


def _moves(providers: dict[str, Any]) -> Any:
    hosts = [name for name in sorted(providers) if name != "share"]
    offered = [(name, told) for name in hosts for told in providers[name][1].items()]
    targets = [*hosts, "{name: made, parent: host0}", "{name: other, traits: [CUSTOM_NEW]}"]

    def line(place: Any, share: float, target: str) -> str:
        source, (name, told) = place
        amount = "all" if share == 1 else max(1, int(told["total"] * share))
        return f"{{from: {source}, resources: {{{name}: {amount}}}, to: {target}}}"

    return strategies.builds(
        line,
        strategies.sampled_from(offered),
        strategies.sampled_from([0.2, 0.5, 1, 1]),
        strategies.sampled_from(targets),
    )


def prepared(client: api.Client, case: Case) -> run.Prepared:
    moves = document.parse(case.moves, "moves")
    asked = run.Asked(moves, manner=solve.Manner(case.strategy, 5))
    return run.plan_reshape(client, asked, READING)


def carried_out(
    client: api.Client, made: plan.Plan, direction: settle.Direction = settle.Direction.APPLY
) -> list[outcome.Outcome]:
    around = settle.Circumstances(client, journal.Unkept(), threading.Event(), direction=direction)
    return execute.execute(made.changes, around, execute.Limits(workers=2)).outcomes


@hypothesis.given(case=cases())
@FEW
def test_a_reshape_is_refused_and_changes_nothing_or_keeps_every_law_and_can_be_taken_back(
    case: Case,
) -> None:
    with service.InProcessPlacement(load=case.state) as placement:
        client = placement.client(microversion.MAXIMUM)
        before = placement.app.export()
        try:
            found = prepared(client, case)
        except errors.InvalidInput:
            hypothesis.event("refused")
            assert placement.app.export() == before
            return
        assert placement.app.export() == before
        hypothesis.event("moved consumers" if found.placed else "moved inventories")
        statuses = {item.status for item in carried_out(client, found.planned.plan)}
        assert statuses <= {outcome.Status.APPLIED}
        _check_laws(before, placement.app.export())
        left = observe.observe_picture(client, found.wanted.roots, READING)
        assert found.rehearsed is not None
        assert invariant.difference(left, found.wanted) == []
        assert invariant.difference(left, found.rehearsed.left) == []
        inverse = undo.inverse(found.planned.plan)
        taken_back = carried_out(client, inverse, settle.Direction.UNDO)
        assert {item.status for item in taken_back} <= {outcome.Status.APPLIED}
        after = placement.app.export()
        assert world.without_generations(after) == world.without_generations(before)


def _check_laws(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Sums per consumer, owners and types are what they were; nothing is over capacity."""
    assert before["consumers"].keys() == after["consumers"].keys()
    for uuid, consumer in before["consumers"].items():
        now = after["consumers"][uuid]
        assert _summed(consumer) == _summed(now)
        assert all(consumer[key] == now[key] for key in ("project", "user", "type"))
    assert after["providers"][world.uuid_of("share")]["inventories"]
    for uuid, provider in after["providers"].items():
        for name, fields in provider["inventories"].items():
            used = sum(
                item["allocations"].get(uuid, {}).get(name, 0)
                for item in after["consumers"].values()
            )
            assert used <= inventory.Inventory.from_dict(fields).capacity


def _summed(consumer: dict[str, Any]) -> dict[str, int]:
    total: dict[str, int] = {}
    for resources in consumer["allocations"].values():
        for name, amount in resources.items():
            total[name] = total.get(name, 0) + amount
    return total
