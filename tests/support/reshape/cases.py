# SPDX-License-Identifier: Apache-2.0
"""Random clouds, random moves in them, and the invariants of every reshape."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies

from osc_placement.model import inventory
from tests.support.embedded import uuid_of
from tests.support.reshape import cloud_builder

CLASSES = ("VGPU", "VCPU", "CUSTOM_FPGA")


@dataclasses.dataclass(frozen=True)
class Case:
    """A cloud and its moves; ``changes``: a class becomes another.

    ``totals`` is ``{(provider name, class): the total that the document gives}``.
    """

    state: dict[str, Any]
    moves: str
    strategy: Any
    changes: bool = False
    totals: Mapping[tuple[str, str], int] = dataclasses.field(default_factory=dict)


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
        parts = _held(draw, providers, used)
        if parts:
            consumers[f"consumer{number}"] = {**parts, "share": {"DISK_GB": 5}}
    moves = draw(strategies.lists(_moves(providers), min_size=1, max_size=3))
    drained = [name for name in providers if "_" in name and draw(strategies.integers(0, 3)) == 0]
    for name in drained:
        resources = ", ".join(f"{resource_class}: all" for resource_class in providers[name][1])
        if resources:
            moves.append(f"{{from: {name}, resources: {{{resources}}}, to: host0}}")
    text = "moves:\n" + "".join(f"- {line}\n" for line in moves)
    if drained:
        text += f"delete: [{', '.join(drained)}]\n"
    totals = draw(_totals([name for name in providers if name not in {"share", *drained}]))
    if totals:
        text += "providers:\n"
    for (name, resource_class), total in totals.items():
        text += f"- {{name: {name}, inventories: {{{resource_class}: {{total: {total}}}}}}}\n"
    strategy = draw(strategies.sampled_from([None, "pack"]))
    return Case(cloud_builder.state(providers, consumers), text, strategy, " as: " in text, totals)


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


def _totals(names: list[str]) -> Any:
    slots = strategies.tuples(strategies.sampled_from(names), strategies.sampled_from(CLASSES))
    totals = strategies.dictionaries(slots, strategies.integers(0, 20), max_size=2)
    return strategies.one_of(strategies.just({}), totals)


def _held(draw: Any, providers: dict[str, Any], used: dict[tuple[str, str], int]) -> Any:
    """Random allocations of one consumer within the free capacity."""
    allocations: dict[str, dict[str, int]] = {}
    shares = strategies.lists(
        strategies.tuples(strategies.sampled_from(sorted(providers)), strategies.integers(1, 4)),
        max_size=3,
        unique_by=lambda item: item[0],
    )
    for name, amount in draw(shares):
        for resource_class, fields in providers[name][1].items():
            if not isinstance(fields, dict):
                continue
            offered = inventory.Inventory(**fields)
            taken = used.get((name, resource_class), 0)
            if offered.suits_units(amount) and offered.has_room(taken, amount):
                used[name, resource_class] = taken + amount
                allocations.setdefault(name, {})[resource_class] = amount
    return allocations


def _moves(providers: dict[str, Any]) -> Any:
    hosts = [name for name in sorted(providers) if name != "share"]
    offered = [(name, fields) for name in hosts for fields in providers[name][1].items()]
    targets = [*hosts, "{name: created, parent: host0}", "{name: other, traits: [CUSTOM_NEW]}"]

    def line(slot: Any, part: float, target: str, changed: int) -> str:
        source, (name, fields) = slot
        amount = "all" if part == 1 else max(1, int(fields["total"] * part))
        becomes = f", as: {{{name}: VGPU}}" if name == "CUSTOM_FPGA" and not changed else ""
        return f"{{from: {source}, resources: {{{name}: {amount}}}, to: {target}{becomes}}}"

    return strategies.builds(
        line,
        strategies.sampled_from(offered),
        strategies.sampled_from([0.2, 0.5, 1, 1]),
        strategies.sampled_from(targets),
        strategies.integers(0, 3),
    )


def check_laws(case: Case, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Check the sums, owner and type of each consumer, the totals and the capacities."""
    assert before["consumers"].keys() == after["consumers"].keys()
    for uuid, consumer in before["consumers"].items():
        now = after["consumers"][uuid]
        assert _summed(consumer, case.changes) == _summed(now, case.changes)
        assert all(consumer[key] == now[key] for key in ("project", "user", "type"))
    assert after["providers"][uuid_of("share")]["inventories"]
    if not case.totals:
        was, now = (_totals_of(state["providers"], case.changes) for state in (before, after))
        assert was == now
    for (name, resource_class), total in case.totals.items():
        offered = after["providers"][uuid_of(name)]["inventories"]
        assert offered.get(resource_class, {"total": 0})["total"] == total
    for uuid, provider in after["providers"].items():
        for name, fields in provider["inventories"].items():
            used = sum(
                item["allocations"].get(uuid, {}).get(name, 0)
                for item in after["consumers"].values()
            )
            assert used <= inventory.Inventory.from_dict(fields).capacity


def _totals_of(providers: dict[str, dict[str, Any]], changes: bool) -> dict[str, int]:
    total: dict[str, int] = {}
    for provider in providers.values():
        for resource_class, fields in provider["inventories"].items():
            name = "VGPU" if changes and resource_class == "CUSTOM_FPGA" else resource_class
            total[name] = total.get(name, 0) + fields["total"]
    return total


def _summed(consumer: dict[str, Any], changes: bool) -> dict[str, int]:
    total: dict[str, int] = {}
    for resources in consumer["allocations"].values():
        for resource_class, amount in resources.items():
            name = "VGPU" if changes and resource_class == "CUSTOM_FPGA" else resource_class
            total[name] = total.get(name, 0) + amount
    return total
