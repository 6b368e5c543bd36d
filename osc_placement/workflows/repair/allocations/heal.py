# SPDX-License-Identifier: Apache-2.0
"""Heal: reads what it needs, decides, and plans; for ``allocation heal`` and its data migration."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from osc_placement import errors
from osc_placement.client import api
from osc_placement.model import json_text, name
from osc_placement.neutron.api import Neutron
from osc_placement.nova.api import Nova
from osc_placement.plan import change, plan
from osc_placement.plan.kinds import allocations as kinds_allocations
from osc_placement.plan.reasons import Code, Reason
from osc_placement.scheduling.own_host import UnmetNeed
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.repair.allocations import admission, observe
from osc_placement.workflows.repair.allocations.decision import HealDecision, decide
from osc_placement.workflows.repair.allocations.heal_request import HealRequest
from osc_placement.workflows.repair.allocations.observe import HealReader
from osc_placement.workflows.repair.allocations.repair import (
    change_of,
    observed_plan,
    provider_names,
    subject_of,
)


def plan_healing(
    client: api.Client,
    nova: Nova,
    request: HealRequest,
    context: ReadContext | None = None,
    *,
    neutron: Neutron | None = None,
) -> plan.ObservedPlan:
    """The plan that gives the servers in scope what they lack; it removes nothing.

    Requests: ``HealReader.read_cloud``; one per owner of servers, and one per consumer of
    an owner whose sums differ, at most ``owners.MOST_READS`` (with
    ``check_owners``: one per consumer); one for each host on which
    servers lack something and for each provider that shares with it; for devices one per
    provider of the tree, and one query per host and flavor; those of ``admission.observe`` for
    servers without allocations. To neutron one for 64 servers that
    lack something or are on a host with devices. To nova one for each server without
    allocations that has an image and volumes.
    Applying the plan: one write for 64 servers; one read and one write for a server with ports.
    Errors: as ``read_cloud``, and those of neutron.
    """
    reader = HealReader(client, nova, neutron, context, request)
    snapshot = reader.read_cloud()
    reader.read_owners(snapshot)
    reader.read_missing(snapshot, reader.request)
    return _plan(nova, snapshot, reader.request)


def plan_missing(
    client: api.Client,
    nova: Nova,
    request: HealRequest,
    context: ReadContext | None = None,
    *,
    neutron: Neutron | None = None,
    after: str = "",
) -> Iterator[tuple[str, plan.ObservedPlan]]:
    """Plans for some hosts at a time, without owners.

    Yields ``(position, plan)``; ``after`` is a position to continue from. ``legalized`` counts the
    servers of a plan whose hosts break a rule.
    Requests: ``HealReader.read_parts``, then as ``plan_healing`` without owners.
    """
    reader = HealReader(client, nova, neutron, context, request)
    for scope, snapshot in reader.read_parts(after):
        part = dataclasses.replace(reader.request, scope=scope)
        reader.read_missing(snapshot, part)
        yield max(scope.hosts or ()), _plan(nova, snapshot, part)


def _plan(nova: Nova, snapshot: Cloud, request: HealRequest) -> plan.ObservedPlan:
    """The plan for the servers in the scope of ``request``.

    Requests: those of ``admission.observe``.
    """
    notes = observe.unchecked_owners(snapshot, request)
    lacking = [
        server
        for server in request.scope.select(snapshot.servers.values())
        if server.uuid not in snapshot.allocations
    ]
    rules: Mapping[str, Sequence[UnmetNeed]] = {}
    try:
        rules = admission.observe(nova, snapshot, lacking)
    except errors.PlacementError as error:
        if request.only_allowed:
            raise
        notes.append(admission.NOT_READ.format(error=error))
    if down := sorted(snapshot.hosts.unreachable):
        notes.append(f"{_HIDDEN}{name.and_more(down)}: its cell is down")
    if nova.source:
        notes.append(f"nova's responses come from {nova.source}")
    if nova.source and snapshot.ports:
        notes.append(
            f"neutron's responses come from {nova.source}: the binding profiles of ports are not"
            " written"
        )
    planned = plan_heal(snapshot, request, rules)
    notes += legalized_note(legalized(planned))
    return observed_plan(dataclasses.replace(planned, notes=(*planned.notes, *notes)), snapshot)


def legalized(planned: plan.Plan) -> int:
    """The number of servers whose hosts break a rule, and which get allocations there."""
    return sum(admission.NOT_CHOSEN in item.reason for item in planned.changes)


def unread_notes(planned: plan.Plan) -> list[str]:
    """The notes about rules that could not be checked, and about servers that nova hides."""
    return [note for note in planned.notes if note.startswith((_UNREAD, _HIDDEN))]


def legalized_note(count: int) -> list[str]:
    """The warning about ``legalized`` servers; none without one."""
    return [_LEGALIZED.format(servers=name.counted(count, "server"))] if count else []


_UNREAD = admission.NOT_READ.partition("{")[0]
_HIDDEN = "nova does not list the servers on "
_LEGALIZED = (
    "the allocations make legal what nova's scheduler would not do, for {servers}: 'openstack"
    " placement allocation heal --only-allowed' leaves them out"
)


def plan_heal(
    snapshot: Cloud,
    request: HealRequest,
    rules: Mapping[str, Sequence[UnmetNeed]] | None = None,
) -> plan.Plan:
    """The changes that give servers what they lack; every other server with its reason.

    ``rules``: ``{server uuid: the rules of nova's scheduler that its host does not meet}``.
    ``snapshot`` contains what ``HealReader.read_missing`` reads.
    """
    decisions = (
        _by_rules(decision, rules or {}, only_allowed=request.only_allowed)
        for decision in decide(snapshot, request)
    )
    planned = plan.make(_item(snapshot, decision) for decision in decisions)
    idle = request.options.assigned.keys() - {item.subject.uuid for item in planned.changes}
    note = f"--assign: nothing is created for {name.and_more(sorted(idle), 3)}"
    return dataclasses.replace(
        planned, names=provider_names(planned, snapshot), notes=(note,) if idle else ()
    )


def _by_rules(
    decision: HealDecision, rules: Mapping[str, Sequence[UnmetNeed]], *, only_allowed: bool
) -> HealDecision:
    """The decision about a server without allocations, with the rules that its host breaks.

    ``only_allowed`` leaves out a server whose rules could not be checked, too.
    """
    broken = rules.get(decision.server.uuid, ())
    if decision.repair is None or decision.before.allocations or not broken:
        return decision
    why = admission.in_words(broken)
    if only_allowed:
        reason = Reason(Code.NOT_ALLOWED, f"{why} (--only-allowed)")
        return HealDecision(decision.server, decision.before, reason)
    reason = Reason(text=f"{decision.reason.text}; {why}")
    return dataclasses.replace(decision, reason=reason)


def _item(snapshot: Cloud, decision: HealDecision) -> change.Change[Any] | change.Skipped:
    subject = subject_of(decision.server)
    if decision.repair is not None:
        return change_of(snapshot, subject, [decision.repair], decision.reason.text)
    # A service is asked for the owner only where it may be wrong, and a file has them all.
    state = kinds_allocations.ConsumerState(
        kinds_allocations.ConsumerState.of(decision.before).allocations
    )
    return change.Skipped(
        kinds_allocations.TYPE.name,
        subject,
        state,
        state,
        decision.reason.text,
        decision.reason.code,
        unchanged=not decision.reason,
        refused=decision.refused,
    )


def read(path: pathlib.Path) -> dict[str, frozenset[str]]:
    """``{server uuid: names or UUIDs of providers}``. Errors: InvalidInput with all errors."""
    try:
        document = json_text.read(path)
    except (OSError, ValueError) as error:
        raise errors.InvalidInput([f"{path} cannot be read: {error}"]) from error
    if not isinstance(document, dict):
        raise errors.InvalidInput([f"{path} is not an object of the form {{server: [provider]}}"])
    found_errors = errors.InputErrors()
    assigned = {}
    for server, value in document.items():
        providers = value if isinstance(value, list) else [value]
        if not name.is_uuid(server):
            found_errors.add(f"{path}: {server!r} is not the UUID of a server")
        elif not (providers and all(isinstance(item, str) and item for item in providers)):
            found_errors.add(f"{path}: the value of {server} is not a provider or a list of them")
        else:
            assigned[name.canonical_uuid(server)] = frozenset(providers)
    found_errors.check()
    return assigned
