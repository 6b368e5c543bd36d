"""Auditing: everything that is wrong with allocations, and the plan that mends it. Pure.

``auditing`` observes and calls this. Whoever holds what nobody uses is judged first: what
that frees is there for servers that lack something.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator

from osc_placement.plan import change, plan
from osc_placement.plan.kinds import allocations as kinds_allocations
from osc_placement.workflows.allocations import expected, snapshot as pictures
from osc_placement.workflows.allocations.audit import (
    finding,
    missing,
    orphaned,
    providers,
    wrong_host,
    wrong_size,
)
from osc_placement.workflows.allocations.audit.finding import AuditContext, Code, Finding
from osc_placement.workflows.allocations.heal import plan as heal_plan

#: Frees first: in one stage, what is freed would be there too late for some.
_FREEING, _TAKING = 0, 1


def find(
    picture: pictures.CloudSnapshot,
    hints: AuditContext,
    answers: expected.Answers | None = None,
    request: heal_plan.Request | None = None,
) -> list[Finding]:
    """What is wrong, in the order in which it is shown.

    A consumer may be several findings; then what is proposed of each builds on those before.
    """
    offers = list(providers.find(picture, hints))
    found = [*orphaned.find(picture, hints), *wrong_host.find(picture, hints)]
    picture = mended(picture, found)
    sizes = _placed(found, wrong_size.find(picture, hints))
    picture = mended(picture, sizes)
    lacks = _placed(
        found, missing.find(picture, hints, request or heal_plan.Request(), answers or {})
    )
    return sorted([*offers, *_once([*found, *sizes, *lacks])], key=Finding.sort_key)


def _placed(places: Iterable[Finding], more: Iterable[Finding]) -> list[Finding]:
    """What may be done beside what is in doubt about where a server is: nothing to its amounts.

    They would tell otherwise of what it holds elsewhere.
    """
    doubted = {item.subject.uuid for item in places if item.code is Code.UNKNOWN}
    return [
        item
        for item in more
        if item.subject.uuid not in doubted or item.repair is None or not item.repair.parts
    ]


def _once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Of a server whose place is in doubt nothing else needs to be in doubt."""
    doubted: set[str] = set()
    for item in findings:
        if item.code is Code.UNKNOWN:
            if item.subject.uuid in doubted:
                continue
            doubted.add(item.subject.uuid)
        yield item


def mended(picture: pictures.CloudSnapshot, findings: Iterable[Finding]) -> pictures.CloudSnapshot:
    """The picture as it will be when what can be is repaired."""
    allocations = dict(picture.allocations)
    for item in findings:
        if item.repair is not None and item.repair.parts:
            uuid = item.subject.uuid
            after = item.repair.of(
                dataclasses.replace(picture.consumer(uuid), allocations=allocations[uuid])
            )
            allocations[uuid] = after.allocations
    kept = {uuid: held for uuid, held in allocations.items() if held}
    return dataclasses.replace(picture, allocations=kept)


def concerning(
    findings: Iterable[Finding], hosts: Collection[str] = (), codes: Collection[Code] = ()
) -> list[Finding]:
    """Those about some hosts and of some codes; none of them do not narrow."""
    return [
        item
        for item in findings
        if (not hosts or any(each in hosts for each in item.hosts))
        and (not codes or item.code in codes)
    ]


def plan_repair(picture: pictures.CloudSnapshot, findings: Iterable[Finding]) -> plan.Plan:
    """One change for each consumer of which something is to be repaired.

    ``picture`` holds those consumers whole, with their owners. What is left is not in the
    plan: it stands among the findings.
    """
    chosen: dict[str, list[Finding]] = {}
    for item in findings:
        if item.repair is not None:
            chosen.setdefault(item.subject.uuid, []).append(item)
    made = plan.make(_change(picture, each) for each in chosen.values())
    spoken = {key.partition(":")[0] for item in made.changes for key in item.before}
    known = spoken & picture.providers.keys()
    return made.replace(names={uuid: finding.name_of(picture, uuid) for uuid in known})


def _change(picture: pictures.CloudSnapshot, findings: list[Finding]) -> change.Change:
    """All that is to be done about one consumer."""
    before = after = picture.consumer(findings[0].subject.uuid)
    premise: dict[str, change.Value] = {}
    bound: dict[str, tuple[change.Value, change.Value]] = {}
    frees = True
    for item in sorted(findings, key=lambda each: _ORDER.index(each.code)):
        if item.repair is None:
            raise AssertionError(item)
        after = item.repair.of(after)
        premise |= item.repair.premise
        bound |= item.repair.bound
        frees = frees and item.repair.frees
    made = kinds_allocations.planned(
        findings[0].subject.name,
        before,
        after,
        reason="; ".join(item.code for item in findings),
        stage=_FREEING if frees else _TAKING,
        premise=premise,
    )
    if not bound:
        return made
    return made.replace(
        kind=change.BOUND,
        before={**made.before, **{key: was for key, (was, _) in bound.items()}},
        after={**made.after, **{key: becomes for key, (_, becomes) in bound.items()}},
    )


#: What each repair builds on comes before it.
_ORDER = (
    Code.ORPHANED,
    Code.DOUBLED,
    Code.WRONG_HOST,
    Code.WRONG_SIZE,
    Code.MISSING,
    Code.INCOMPLETE,
    Code.WRONG_OWNER,
)
