# SPDX-License-Identifier: Apache-2.0
"""Copies of a cloud: clients of reference servers, and plans that are applied to them.

The reference server accepts and refuses what Placement does. Nothing of a run on a copy is kept,
and no other service is asked or changed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import pathlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from osc_placement import errors, microversion, server
from osc_placement.client import api, local, wsgi
from osc_placement.engine import record, state
from osc_placement.plan import attempt, executor, guards, journal, plan, result
from osc_placement.plan.kinds import registry
from osc_placement.plan.kinds.base import Services
from osc_placement.server.store import document, errors as store_errors
from osc_placement.workflows.cloud import source
from osc_placement.workflows.cloud.context import ReadContext

LOG = logging.getLogger(__name__)

_NAME = "a copy in memory"


@contextlib.contextmanager
def opened(
    open_app: Callable[[], wsgi.WsgiApp],
    name: str = _NAME,
    version: microversion.Microversion | None = microversion.MAXIMUM,
) -> Iterator[api.Client]:
    """A client of an application in this process, which is opened at the first request."""
    client = api.Client(wsgi.in_process(open_app, name), version)
    try:
        yield client
    finally:
        client.close()


@contextlib.contextmanager
def opened_file(path: pathlib.Path) -> Iterator[api.Client]:
    """A client of a database file or snapshot. Errors: PlacementError, which names the file.

    A missing file is found now, a damaged one at the first request.
    """
    if not path.exists():
        raise errors.PlacementError(f"the file {path} does not exist")
    with opened(lambda: server.create_app(str(path), lazily=True), str(path)) as client:
        yield client


@dataclasses.dataclass(frozen=True, slots=True)
class After:
    """A state with a plan applied, a client of that copy, a line for each failed change."""

    state: state.CloudState
    client: api.Client
    failures: tuple[str, ...]


@contextlib.contextmanager
def applied(
    records: record.Changes,
    planned: plan.Plan,
    version: microversion.Microversion = microversion.MAXIMUM,
) -> Iterator[After]:
    """A copy of these records after a plan of new changes, during the block.

    Changes in other services and conditions on nova's servers are left out. Guards do not refuse.
    Errors: PlacementError for records that contradict each other; UnsupportedVersion for a change
    that ``version`` does not have.
    """
    with _copied(records, version) as (client, repository):
        failures = tuple(_failures(client, planned))
        with repository.snapshot() as after:
            yield After(after, client, failures)


@contextlib.contextmanager
def concerned(client: api.Client, context: ReadContext, planned: plan.Plan) -> Iterator[api.Client]:
    """A client of a copy of what a plan concerns, during the block.

    Requests: those of ``source.concerned``. Errors: those of ``applied`` for records.
    """
    with (
        source.of(client, context).concerned(planned) as base,
        _copied(_records(base), client.microversion) as (copy, _),
    ):
        yield copy


@contextlib.contextmanager
def _copied(
    records: record.Changes, version: microversion.Microversion
) -> Iterator[tuple[api.Client, local.StateRepository]]:
    if problems := document.find_problems(records):
        raise errors.PlacementError(f"a copy cannot be made: {store_errors.listed(problems)}")
    app = server.create_app()
    app.repository.load(records)
    with opened(lambda: app, version=version) as client:
        yield client, app.repository


def _records(base: state.CloudState) -> record.Changes:
    return record.Changes(base.providers, base.consumers, base.traits, base.resource_classes)


class RehearsalFailed(errors.PlacementError):
    """The rehearsal failed; no change was sent to the cloud."""


def rehearse(
    records: record.Changes,
    planned: plan.Plan,
    version: microversion.Microversion,
    expected: record.Changes,
) -> None:
    """Apply a plan to a copy of these records: the result must be ``expected``.

    Errors: RehearsalFailed with all failures or differences, and those of ``applied``.
    """
    LOG.info("rehearsing %d changes", len(planned.changes))
    with applied(records, planned, version) as copy:
        failures = list(copy.failures)
        what = "the rehearsal of the plan failed"
        if not failures:
            what = "the result of the rehearsal differs from the plan"
            failures = differences(copy.state, expected)
    if failures:
        raise RehearsalFailed("\n".join([f"{what}, so nothing was changed:", *failures]))


#: The fields of a provider and of a consumer that a plan changes.
_PROVIDER_FIELDS = ("name", "parent_uuid", "inventories", "traits", "aggregates")
_CONSUMER_FIELDS = ("allocations", "project_id", "user_id", "consumer_type")


def differences(actual: record.Changes | state.CloudState, expected: record.Changes) -> list[str]:
    """The differences in providers and consumers, without generations."""
    return [
        *_different(actual.providers, expected.providers, _PROVIDER_FIELDS),
        *_different(actual.consumers, expected.consumers, _CONSUMER_FIELDS),
    ]


def _different(
    actual: Mapping[str, object], expected: Mapping[str, object], fields: Iterable[str]
) -> Iterator[str]:
    for uuid in sorted(actual.keys() | expected.keys()):
        present, wanted = actual.get(uuid), expected.get(uuid)
        name = getattr(present or wanted, "name", f"consumer {uuid}")
        if present is None or wanted is None:
            yield f"{name}: it {'does not exist' if present is None else 'still exists'}"
            continue
        for field in fields:
            value, becomes = getattr(present, field), getattr(wanted, field)
            if value != becomes:
                yield f"{name}: {field} {value} instead of {becomes}"


@contextlib.contextmanager
def after_plan(
    client: api.Client,
    planned: plan.Plan,
    path: pathlib.Path,
    context: ReadContext,
    named: Collection[str] | None = None,
) -> Iterator[tuple[state.CloudState, After]]:
    """The state of a cloud, and a copy after the plan of the file ``path``, during the block.

    Requests: those of ``source.everything``. Errors: those of ``applied``; PlanRefused for a plan
    of another target, and for an undo plan, because only a journal says what it undoes.
    """
    plan.check_target(planned, client.target, client.origin)
    if planned.undoes:
        raise plan.PlanRefused(
            f"{path} is an undo file: only the journal of the run shows which of its changes were"
            " applied. Give a plan of new changes"
        )
    with (
        source.of(client, context).everything(named, planned) as base,
        applied(_records(base), planned) as changed,
    ):
        yield base, changed


def _failures(client: api.Client, planned: plan.Plan) -> Iterator[str]:
    """Apply a plan to a copy; a line for each change that was not applied."""
    changes = [registry.CHANGE_TYPES[item.kind].in_placement(item) for item in planned.changes]
    registry.check_rights(client, changes)
    context = attempt.RunContext(
        Services(client),
        journal.MemoryJournal(),
        threading.Event(),
        relative=planned.relative,
        allow=guards.ALL,
    )
    run = executor.execute(changes, context, executor.RunLimits(workers=1))
    for item in result.ordered(run.results):
        if item.status not in (result.Status.APPLIED, result.Status.UNCHANGED):
            yield f"{item.kind} {item.subject.name}: {item.status}: {item.reason}"
