"""Servers that have nothing, or are not said to be whose they are: as ``heal`` sees them. Pure.

What healing would do is what is proposed; what it leaves alone is unknown. Called by ``audit``.
"""

from __future__ import annotations

from collections.abc import Iterator

from osc_placement import errors
from osc_placement.client import responses
from osc_placement.model import allocation
from osc_placement.nova import values
from osc_placement.plan import change
from osc_placement.plan.kinds import allocations
from osc_placement.workflows.allocations import expected, location, snapshot as pictures
from osc_placement.workflows.allocations.audit import finding
from osc_placement.workflows.allocations.audit.finding import AuditContext, Code, Finding, Repair
from osc_placement.workflows.allocations.heal import plan

_NOTHING = "it has no allocations"
_CHANGING = "it had allocations a moment ago: run it again"
_STUCK = "it has been so since {since}"

#: For so many seconds may a server be built before that is odd.
_LONG = 3600


class _Answers(dict[str, responses.Candidates | errors.PlacementError]):
    """Placement's; it was not asked about who has just lost what it had."""

    def __missing__(self, _: str) -> errors.PlacementError:
        return errors.PlacementError(_CHANGING)


def find(
    picture: pictures.CloudSnapshot,
    hints: AuditContext,
    request: plan.Request,
    answers: expected.Answers,
) -> Iterator[Finding]:
    """What healing would change, and what it would if it could."""
    made = plan.plan_heal(picture, request, _Answers(answers))
    for item in made.items():
        server = picture.servers[item.subject.uuid]
        found = (
            list(_of_change(picture, item))
            if isinstance(item, change.Change)
            else list(_of_remark(picture, server, item, hints))
        )
        why = hints.too_young([server.updated])
        for one in found:
            yield one.doubted(why) if why and one.repair else one


def _of_change(picture: pictures.CloudSnapshot, item: change.Change) -> Iterator[Finding]:
    """A server that gets what it lacks, or another owner, or both."""
    now = picture.consumer(item.subject.uuid)
    after = allocations.read(now.uuid, item.after, now.generation)
    owner = pictures.Owner(after.project_id, after.user_id, after.consumer_type)
    hosts = _hosts(picture, picture.servers[now.uuid])
    parts = {
        uuid: part for uuid, part in after.allocations.items() if now.allocations.get(uuid) != part
    }
    bound = {
        key: (item.before[key], item.after[key])
        for key in item.after
        if key not in allocations.facts(now).keys() | allocations.facts(after).keys()
    }
    if parts or bound:
        evidence = _evidence(now, parts)
        proposed = finding.told(picture, parts) if parts else item.reason
        repair = Repair(parts, None if now.allocations else owner, item.premise, bound)
        yield Finding(Code.MISSING, item.subject, hosts, evidence, proposed, repair)
    if now.allocations and _pair(now) != _pair(after):
        yield _owner(now, after, item, hosts, owner)


def _evidence(now: allocation.Consumer, parts: allocation.Allocations) -> str:
    if not now.allocations:
        return _NOTHING
    return "it lacks what its ports ask for" if parts else "its ports do not tell what they have"


def _owner(
    now: allocation.Consumer,
    after: allocation.Consumer,
    item: change.Change,
    hosts: tuple[str, ...],
    owner: pictures.Owner,
) -> Finding:
    incomplete = allocation.PLACEHOLDER in _pair(now)
    return Finding(
        Code.INCOMPLETE if incomplete else Code.WRONG_OWNER,
        item.subject,
        hosts,
        "its owner is a placeholder" if incomplete else f"it is of {_differing(now, after)}",
        f"{_differing(after, now)} instead",
        Repair(owner=owner, premise=item.premise),
    )


def _pair(one: allocation.Consumer) -> tuple[str | None, str | None]:
    return (one.project_id, one.user_id)


def _differing(one: allocation.Consumer, other: allocation.Consumer) -> str:
    """What is not the same of whose one is: ``project 7fc7; user 3079``."""
    pairs = zip(("project", "user"), _pair(one), _pair(other), strict=True)
    return "; ".join(f"{what} {whose}" for what, whose, others in pairs if whose != others)


def _of_remark(
    picture: pictures.CloudSnapshot,
    server: values.Server,
    item: change.Skipped,
    hints: AuditContext,
) -> Iterator[Finding]:
    """What healing leaves alone: odd if the server should have something and has nothing."""
    where = location.of(picture, server)
    if not server.known or where.moving == location.CELL_DOWN:
        return
    if not plan.lacks(picture, server):
        if where.moving == location.BUILDING and _is_old(server, hints):
            yield _unknown(
                picture,
                item,
                f"{where.moving}, yet has {_held(picture, server)}",
                _STUCK.format(since=server.updated),
            )
    elif where.absent not in _ON_NONE and _should_have(server):
        yield _unknown(picture, item, _NOTHING, item.reason)


#: Who is on no host has nothing.
_ON_NONE = frozenset({location.OFFLOADED, location.NO_HOST})


def _should_have(server: values.Server) -> bool:
    asked = expected.request_of(server)
    return bool(asked.unknown or asked.total())


def _is_old(server: values.Server, hints: AuditContext) -> bool:
    return not AuditContext(hints.now, _LONG).too_young([server.updated])


def _held(picture: pictures.CloudSnapshot, server: values.Server) -> str:
    return finding.told(picture, picture.allocations[server.uuid])


def _unknown(
    picture: pictures.CloudSnapshot, item: change.Skipped, evidence: str, why: str
) -> Finding:
    hosts = _hosts(picture, picture.servers[item.subject.uuid])
    return Finding(Code.UNKNOWN, item.subject, hosts, evidence, f"left alone: {why}")


def _hosts(picture: pictures.CloudSnapshot, server: values.Server) -> tuple[str, ...]:
    if server.host:
        return (server.host,)
    return finding.hosts_of(picture, picture.allocations.get(server.uuid, {}))
