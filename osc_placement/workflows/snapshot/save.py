"""Saves a cloud in a snapshot file; a save that was killed continues, and a file is refreshed.

All three are one procedure: list the providers, read those that the file does not have at their
generation, then list them again and read what changed in between. Readings go to the file at
once, and one batch is in memory.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import logging
import pathlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from osc_placement.client import api, api_errors, responses, retry
from osc_placement.model import provider
from osc_placement.plan import plan
from osc_placement.server.store import snapshot, staging
from osc_placement.workflows.context import ReadContext
from osc_placement.workflows.snapshot import destination, file as snapshot_file, source

LOG = logging.getLogger(__name__)

Metadata = snapshot.Metadata

#: Reads more than Placement into the file of a save.
Also = Callable[[staging.Staging], None]

T = TypeVar("T")
R = TypeVar("R")

#: Readings per transaction: what a kill can lose.
_BATCH = 100

#: How often providers that changed during the save are read again.
_ROUNDS = 3

#: Providers that may fail to be read before the cloud counts as unavailable.
_MOST_FAILURES = 10

_CHANGED = "changed during the save"
_DELETED = "deleted during the save"
_NEVER_STABLE = "never stable: it changed during each of the attempts to read it"
_TORN = "its allocations on several providers were read at different times"


@dataclasses.dataclass(frozen=True, slots=True)
class SaveRequest:
    """The operator's arguments. ``owners``: read the project, user and type of each consumer.

    ``refresh``: update the file if it exists. ``also`` reads nova into the file, at the end.
    ``anonymizing`` writes the file; without it, the file has the real names.
    """

    path: pathlib.Path
    owners: bool = True
    refresh: bool = False
    also: Also | None = None
    anonymizing: destination.Anonymizing | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class SaveReport:
    """What a save did: the metadata of the file, and how much was read.

    ``continued``: an unfinished save was continued.
    """

    metadata: Metadata
    counts: snapshot.Counts
    notes: Sequence[snapshot.Note]
    providers_read: int
    consumers_read: int
    continued: bool = False


def save(
    client: api.Client, request: SaveRequest, context: ReadContext | None = None
) -> SaveReport:
    """Save the state of a cloud in a new file, continue a save, or refresh a file.

    Each saved provider is a state that existed, except where a note of the file says otherwise.
    Requests: two listings of providers, one of traits and one of resource classes; four per
    provider that the file does not have at its generation, and one per consumer that it does not
    have at its generation. For a provider that changes during the save, up to 15 more in each of
    three rounds, and a listing per round. To continue or refresh also one per project, or, if
    that is less or owners are not read, one per provider with allocations and one per project with
    consumers on changed providers, and one per such consumer of a project whose usage differs.
    Errors: PlacementError; the unfinished file stays, and the same call continues.
    """
    client.require_feature("consumer generation", "snapshots")
    context = context or ReadContext()
    partial = destination.partial_path(request.path)
    continued = partial.exists()
    with snapshot_file.explained():
        if request.anonymizing is not None:
            request.anonymizing.check(plan.place(client.target), request.path)
        if request.path.exists():
            destination.check_refresh(request.path, client.target, refresh=request.refresh)
            if not continued:
                with snapshot.Snapshot(str(request.path)) as existing:
                    existing.copy_to(str(partial))
        with destination.continuable(partial), staging.Staging(str(partial)) as file:
            saving = _Save(client, file, request, context)
            metadata = saving.run()
        destination.publish(request.path, request.anonymizing)
        with snapshot.Snapshot(str(request.path)) as saved:
            return SaveReport(
                metadata,
                saved.counts(),
                saved.notes(),
                saving.providers_read,
                saving.consumers_read,
                continued,
            )


class _Save:
    """One run of a save on an open file."""

    def __init__(
        self,
        client: api.Client,
        file: staging.Staging,
        request: SaveRequest,
        context: ReadContext,
    ) -> None:
        self._client, self._file = client, file
        self._request, self._context = request, context
        self._requests = 0
        self._read: set[str] = set()
        self._owners_read: set[str] = set()
        self._verified: set[str] = set()
        self._unstable: set[str] = set()
        self._failures: dict[str, api_errors.ApiError] = {}
        self._metadata = _metadata(client, request)
        self.consumers_read = 0

    @property
    def providers_read(self) -> int:
        """How many providers were read."""
        return len(self._read)

    def run(self) -> Metadata:
        """All steps, from the first listing to the finished file."""
        continues = self._begin()
        self._list()
        self._read_providers(self._file.outdated())
        self._read_owners()
        if continues:
            self._read_hidden_changes()
        self._settle()
        traits = self._ask(self._client.list_traits)
        resource_classes = self._ask(self._client.list_resource_classes)
        if self._request.also is not None:
            self._request.also(self._file)
            self._metadata = dataclasses.replace(self._metadata, nova_saved=time.time())
        self._add_notes()
        ended = dataclasses.replace(self._metadata, finished=time.time(), requests=self._requests)
        return self._file.finish(ended, traits, resource_classes)

    def _begin(self) -> bool:
        """Record the source; whether the file has readings of an earlier run."""
        client, known = self._client, self._file.metadata
        if known is not None:
            destination.check_origin(self._file.path, known, client.target)
            self._metadata = dataclasses.replace(self._metadata, nova_saved=known.nova_saved)
        self._file.begin(self._metadata)
        if not self._request.owners:
            self._file.clear_owners()
        return self._file.has_readings

    def _list(self) -> None:
        """List the providers; those that were read and are gone are dropped."""
        listing = self._ask(self._client.list_providers)
        gone = self._file.replace_listing(map(_listed, listing))
        self._note(self._read.intersection(gone), _DELETED)

    def _read_providers(self, uuids: Sequence[str], *, verify: bool = False) -> None:
        read = functools.partial(source.read_provider, self._client, verify=verify)
        results = self._context.each(read, uuids, "reading providers")
        for batch in _batches(results):
            for one in batch:
                self._count_provider(one)
            self._file.save_readings(one.reading for one in batch if one.reading is not None)

    def _count_provider(self, one: source.ProviderRead) -> None:
        self._requests += one.requests
        if one.error is not None:
            LOG.info("provider %s: %s", one.uuid, one.error)
            self._failures[one.uuid] = one.error
            if len(self._failures) > _MOST_FAILURES:
                raise one.error
            return
        self._failures.pop(one.uuid, None)
        self._read.add(one.uuid)
        for known, applies in (
            (self._verified, one.is_verified),
            (self._unstable, not one.is_stable),
        ):
            (known.add if applies else known.discard)(one.uuid)

    def _read_allocations(self, uuids: Sequence[str]) -> None:
        """Only the allocations, of providers whose generation has not changed."""
        read = functools.partial(source.read_allocations, self._client)
        for one in self._context.each(read, uuids, "reading allocations"):
            self._requests += 1
            self._file.save_allocations(one.uuid, one.held or {})

    def _read_owners(self) -> None:
        if not self._request.owners:
            return
        read = functools.partial(source.read_owner, self._client)
        results = self._context.each(read, self._file.owners_to_read(), "reading consumers")
        for batch in _batches(results):
            self._requests += len(batch)
            self.consumers_read += len(batch)
            self._owners_read.update(owner.uuid for owner in batch)
            self._file.save_owners(batch)

    def _read_hidden_changes(self) -> None:
        """Find what has changed without a new generation.

        A deleted allocation leaves the generation of its provider. The usage of each project shows
        it, and without owners only the providers themselves do. A consumer that was created again,
        with another owner, can have its old generation: then the usage of a project still differs.
        """
        holding = self._file.with_allocations()
        known = self._file.usages() if self._request.owners else {}
        found: dict[str, responses.Usage] = {}
        if self._request.owners and len(known) <= len(holding):
            found = self._read_usages(sorted(known))
            holding = sorted(
                {
                    provider_uuid
                    for project in _differing(known, found)
                    for provider_uuid in self._file.providers_of_project(project)
                }
            )
        self._read_allocations([uuid for uuid in holding if uuid not in self._read])
        self._read_owners()
        if self._request.owners:
            self._read_new_owners(found)

    def _read_new_owners(self, found: dict[str, responses.Usage]) -> None:
        """Read the owners of consumers on changed providers, in projects whose usage differs.

        ``found`` are the usages that were read already.
        """
        consumers: dict[str, set[str]] = {}
        for provider_uuid in self._read:
            for uuid, project in self._file.owners_on(provider_uuid):
                if uuid not in self._owners_read:
                    consumers.setdefault(project, set()).add(uuid)
        found |= self._read_usages([project for project in consumers if project not in found])
        totals = {project: found[project] for project in consumers}
        known = self._file.usages() if totals else {}
        for project in _differing(known, totals):
            self._file.forget_owners(sorted(consumers[project]))
        self._read_owners()

    def _read_usages(self, projects: Sequence[str]) -> dict[str, responses.Usage]:
        results = self._context.each(self._client.show_total_usage, projects, "reading usages")
        found = dict(zip(projects, results, strict=True))
        self._requests += len(found)
        return found

    def _settle(self) -> None:
        """Read again what changed since it was read, a limited number of times."""
        for _ in range(_ROUNDS):
            self._list()
            changed = [uuid for uuid in self._file.outdated() if uuid not in self._verified]
            torn = [uuid for uuid in self._file.torn() if uuid not in changed]
            if not changed and not torn:
                return
            LOG.info("%d providers changed during the save", len(changed))
            self._note(changed, _CHANGED)
            self._read_providers(changed, verify=True)
            self._read_allocations(torn)
            self._read_owners()

    def _add_notes(self) -> None:
        changed = [uuid for uuid in self._file.outdated() if uuid not in self._failures]
        self._note(changed, _CHANGED)
        self._note(self._unstable, _NEVER_STABLE)
        self._note(self._file.torn_consumers(), _TORN)
        self._file.add_notes(
            snapshot.Note(uuid, f"not read: {error}") for uuid, error in self._failures.items()
        )

    def _note(self, uuids: Iterable[str], text: str) -> None:
        self._file.add_notes(snapshot.Note(uuid, text) for uuid in uuids)

    def _ask(self, call: Callable[[], R]) -> R:
        self._requests += 1
        return retry.read(call)


def _differing(known: dict[str, staging.Usage], found: dict[str, responses.Usage]) -> Iterator[str]:
    """The projects whose usage in Placement differs from that in the file."""
    for project, total in found.items():
        saved = known.get(project, staging.Usage({}, 0))
        held = {name: amount for name, amount in total.resources.items() if amount}
        counts = {saved.consumers, total.consumer_count or saved.consumers}
        if held != saved.resources or len(counts) > 1:
            yield project


def _metadata(client: api.Client, request: SaveRequest) -> Metadata:
    """What is saved, before it is read. Requests: one GET, if versions are not known yet."""
    lowest, highest = client.transport.versions()
    return Metadata(
        origin=plan.place(client.target),
        target=client.target,
        started=time.time(),
        microversion=str(client.microversion),
        server_versions=f"{lowest} to {highest}",
        program=importlib.metadata.version("osc-placement"),
        owners=request.owners,
    )


def _listed(item: provider.Provider) -> staging.Listed:
    root = item.root_uuid or item.uuid
    return staging.Listed(item.uuid, item.name, item.generation, root, item.parent_uuid)


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    batch: list[T] = []
    for item in items:
        batch.append(item)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
