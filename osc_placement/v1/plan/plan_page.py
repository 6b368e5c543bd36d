# SPDX-License-Identifier: Apache-2.0
"""A plan as a page of Markdown, for a merge request: summary, capacity, impact, changes by kind."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from osc_placement.model import command_line
from osc_placement.model.name import counted
from osc_placement.plan import removal_limit, result
from osc_placement.plan.plan import Plan
from osc_placement.v1.output import markdown, rows
from osc_placement.workflows.health import impact

_EFFECTS = {"lost": "**lost**", "one-host": "one host"}

#: Cells of the page are Markdown.
_STRANDED = "stranded servers"
_IMPACT: rows.Columns[impact.FlavorImpact] = {
    "flavor": lambda item: markdown.code(item.name),
    "hosts": lambda item: _arrow(item.before.hosts, item.after.hosts),
    "fits": lambda item: _arrow(item.before.fits, item.after.fits),
    "N-1": lambda item: item.n_minus_1,
    "effect": lambda item: (
        _EFFECTS.get(item.effect)
        or ("not known" if item.may_be_lost else markdown.code(item.refused))
    ),
    _STRANDED: lambda item: markdown.lines(server.name or server.uuid for server in item.stranded),
}

_WITHOUT_CHANGE: rows.Columns[result.ChangeResult] = {
    "name": lambda item: markdown.code(item.subject.name),
    "status": lambda item: str(item.status),
    "reason": lambda item: markdown.code(item.reason),
}


def page(plan: Plan, impact_of: impact.Impact | None = None) -> list[str]:
    """The lines of the page; ``impact_of`` is left out if None. Pure."""
    removed = removal_limit.summary(plan)
    facts = {
        "command": command_line.brief(plan.command),
        "target": str(plan.target),
        "created": plan.created,
        "removes": removed,
        "digest": plan.digest,
    }
    return [
        f"## Plan: {markdown.escaped(plan.summary())}",
        "",
        *markdown.items([*facts.items(), *(("note", note) for note in plan.notes)]),
        "",
        *_capacity(plan),
        *([] if impact_of is None else _impact(impact_of)),
        *_changes(plan),
    ]


def _capacity(plan: Plan) -> list[str]:
    if not plan.capacities:
        return []
    cells = [
        (markdown.code(name), str(item.before), str(item.after), str(item.over or ""))
        for name, item in plan.capacities.items()
    ]
    columns = ("resource class", "before", "after", "providers over capacity")
    return ["### Capacity", "", *markdown.table(columns, cells)]


def _impact(shown: impact.Impact) -> Iterator[str]:
    differing = [item for item in shown.flavors if item.before != item.after or item.stranded]
    yield from ("### Impact", "")
    yield from (shown.harm_texts("**"), "")
    columns = dict(_IMPACT)
    if not shown.knows_stranded:
        del columns[_STRANDED]
    yield from markdown.table(*rows.listing(columns, differing)) if differing else ()
    same = [item for item in shown.flavors if item not in differing]
    if same:
        body = markdown.table(*rows.listing(columns, same))
        yield from markdown.folded(counted(len(same), "unchanged flavor"), body)
    yield from markdown.items(shown.remarks)
    yield ""


def _arrow(before: int, after: int) -> str:
    return str(before) if before == after else f"{before} → {after}"


def _changes(plan: Plan) -> Iterator[str]:
    results = sorted(result.of_plan(plan), key=lambda item: (item.kind, item.sort_key()))
    for kind, items in itertools.groupby(results, key=lambda item: item.kind):
        of_kind = list(items)
        planned = [item for item in of_kind if item.status is result.Status.PLANNED]
        others = [item for item in of_kind if item.status is not result.Status.PLANNED]
        name = kind.replace("_", " ")
        if planned:
            yield from (f"### Changes of {markdown.escaped(name)}", "")
            changes = [
                (markdown.code(row[0]), *(markdown.lines(_lines(cell)) for cell in row[2:4]))
                for row in rows.ResultRows(planned, plan.names)
            ]
            body = markdown.table(("name", "before", "after"), changes)
            yield from markdown.folded(counted(len(planned), "change"), body)
        if others:
            without = f"of {name} without a change"
            summary = counted(len(others), f"item {without}", f"items {without}")
            body = markdown.table(*rows.listing(_WITHOUT_CHANGE, others))
            yield from markdown.folded(markdown.escaped(summary), body)


def _lines(cell: rows.Cell) -> list[str]:
    return [line for line in str(cell.human_readable()).splitlines() if line]
