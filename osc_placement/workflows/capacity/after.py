"""The state of a cloud after a plan: the plan is applied to a copy in an embedded Placement."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator

from osc_placement import errors, microversion, server
from osc_placement.client import api, transport, wsgi
from osc_placement.engine import state
from osc_placement.plan import apply, executor, guards, journal, plan as plan_module, result
from osc_placement.plan.kinds import registry
from osc_placement.server.store import document

_NAME = "a copy in memory"


@dataclasses.dataclass(frozen=True, slots=True)
class After:
    """The state after a plan, and one line for each change that could not be applied."""

    state: state.State
    failures: tuple[str, ...]


@contextlib.contextmanager
def applied(base: state.State, plan: plan_module.Plan, path: pathlib.Path) -> Iterator[After]:
    """The state after the plan of the file ``path``, during the block; ``base`` does not change.

    Changes in other services and conditions on nova's servers are left out. Guards do not refuse.
    Errors: PlanRefused for an undo plan, because only a journal says what it undoes.
    """
    if plan.undoes:
        raise plan_module.PlanRefused(
            f"{path} is an undo file: only the journal of the run shows which of its changes were"
            " applied. Give a plan of new changes"
        )
    app = server.create_app(load=document.dump_document(base))
    client = api.Client(wsgi.in_process(lambda: app, _NAME), microversion.MAXIMUM)
    try:
        report = apply.apply_plan(
            client, plan_module.ObservedPlan(_for_copy(plan, client.target)), _options(), path=path
        )
        with app.repository.snapshot() as after:
            yield After(after, tuple(_failures(report)))
    finally:
        client.close()


def _for_copy(plan: plan_module.Plan, target: str) -> plan_module.Plan:
    """The plan for the copy, without what it changes in other services."""
    changes = tuple(
        dataclasses.replace(registry.CHANGE_TYPES[item.kind].in_placement(item), precondition=None)
        for item in plan.changes
    )
    identity = transport.identity_of(target)
    return dataclasses.replace(
        plan, changes=changes, target=str(target), identity=identity, origin=""
    )


def _options() -> apply.Options:
    return apply.Options(
        allow=tuple(guards.ALL),
        limits=executor.Limits(workers=1),
        journal=journal.MemoryJournal(),
    )


def _failures(report: result.RunReport) -> Iterator[str]:
    for item in report.results:
        if item.status not in (result.Status.APPLIED, result.Status.SKIPPED):
            yield f"{item.kind} {item.subject.name}: {item.status}: {item.reason}"


def check_plan(plan: plan_module.Plan, client: api.Client) -> None:
    """Refuse a plan of another cloud. Errors: PlanRefused."""
    plan_module.check_target(plan, client.target, client.origin)


def has_every_record(client: api.Client) -> bool:
    """Whether the client runs on a database file of the embedded server. Requests: none."""
    return getattr(client.transport.application(), "repository", None) is not None


def require_copy(client: api.Client, option: str) -> None:
    """Refuse an option that needs every record of the cloud. Errors: PlacementError."""
    if not has_every_record(client):
        raise errors.PlacementError(
            f"{option} needs all allocations of the cloud: run the command on a snapshot"
            " ('placement snapshot save', then --os-placement-database)"
        )
