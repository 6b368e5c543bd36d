# SPDX-License-Identifier: Apache-2.0
"""Saves a cloud in a new snapshot file.

List the providers, read each of them, then list them again and read what changed in between. On
the database of Placement itself (--os-placement-config) one transaction takes the place of the
requests: it sees one moment, so nothing is read twice.
"""

from __future__ import annotations

import contextlib
import dataclasses
import email.utils
import functools
import importlib.metadata
import logging
import pathlib
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from osc_placement.client import api, api_errors, local, responses
from osc_placement.plan import file
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.snapshot import file as snapshot_file, readings

if TYPE_CHECKING:
    from osc_placement.workflows.snapshot.nova import Recording

LOG = logging.getLogger(__name__)


T = TypeVar("T")

#: How often providers that changed during the save are read again.
_ROUNDS = 3

_CHANGED = "changed during the save"
_DELETED = "deleted during the save"
_NEVER_STABLE = "never stable: it changed during each of the attempts to read it"


@dataclasses.dataclass(frozen=True, slots=True)
class SaveRequest:
    """The operator's arguments. ``owners``: read the project, user and type of each consumer.

    ``also`` reads nova into the file, at the end.
    """

    path: pathlib.Path
    owners: bool = True
    also: Recording | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class SaveReport:
    """The metadata of the file, ``{kind of records: their number}``, and what is not whole."""

    metadata: snapshot_file.SnapshotMetadata
    counts: Mapping[str, int]
    notes: Sequence[snapshot_file.SaveNote]


def save(
    client: api.Client, request: SaveRequest, context: ReadContext | None = None
) -> SaveReport:
    """Save the state of a cloud in a new file.

    Each provider and each consumer is saved in a state that existed, except where a note of the
    file says otherwise. Requests: two listings of providers, one of traits and one of resource
    classes; five per provider (six without inventories); one per consumer. Without owners none per
    consumer, but one more per provider with allocations. For a provider that changes during the
    save, up to 15 more and one per consumer on it in each of three rounds, and a listing per round;
    for a consumer that changes, one and one per provider of it; for one that is gone, one. With the
    tables of Placement (``client.tables``): none.
    Errors: PlacementError, also for one request of all that fails for good; then no file is left.
    """
    client.require_feature("consumer generation", "snapshots")
    context = context or ReadContext()
    if request.also is not None:
        request.also.check()
    file.check_new(request.path)
    with snapshot_file.created(request.path) as connection:
        metadata = _Save(client, request, context).run(connection)
    with snapshot_file.SnapshotFile(request.path) as finished:
        return SaveReport(metadata, finished.counts(), finished.notes())


@contextlib.contextmanager
def saved(
    client: api.Client, context: ReadContext, *, owners: bool = True
) -> Iterator[pathlib.Path]:
    """A cloud in a temporary file, during the block. Requests: those of ``save``."""
    with tempfile.TemporaryDirectory() as folder:
        request = SaveRequest(pathlib.Path(folder) / "live.sqlite", owners=owners)
        save(client, request, context)
        yield request.path


class _Save:
    """One run of a save."""

    def __init__(self, client: api.Client, request: SaveRequest, context: ReadContext) -> None:
        self._client, self._request, self._context = client, request, context
        self._requests = 0
        self._readings = readings.Readings()
        # Providers that were read, by UUID as all these sets.
        self._read: set[str] = set()
        # Providers whose last reading was a state that existed, and those that still had it later.
        self._verified: set[str] = set()
        self._checked: set[str] = set()
        # Without owners: consumers that a later reading of a provider shows in another state.
        self._doubtful: set[str] = set()
        # Providers that changed during each attempt to read them.
        self._unstable: set[str] = set()
        self._notes: list[snapshot_file.SaveNote] = []
        self._metadata = _metadata(client, request)

    def run(self, connection: sqlite3.Connection) -> snapshot_file.SnapshotMetadata:
        """All steps, from the first listing to the complete file."""
        tables = self._client.tables
        traits, classes = self._read_tables(tables) if tables else self._read_service()
        if self._request.also is not None:
            keep = functools.partial(snapshot_file.keep_response, connection)
            self._request.also.record(keep, self._readings.holders())
            self._metadata = dataclasses.replace(self._metadata, nova_saved=time.time())
        self._add_notes()
        now = time.time()
        changes, notes = readings.records(
            self._readings, traits, classes, owners=self._request.owners, now=now
        )
        ended = dataclasses.replace(self._metadata, finished=now, requests=self._requests)
        return snapshot_file.write(connection, ended, changes, [*self._notes, *notes])

    def _read_tables(self, tables: local.StateTables) -> tuple[Sequence[str], Sequence[str]]:
        """Read all in one transaction; the traits and the resource classes."""
        with tables.reading() as reading:
            self._readings = readings.of_tables(reading, owners=self._request.owners)
            return reading.traits, reading.resource_classes

    def _read_service(self) -> tuple[Sequence[str], Sequence[str]]:
        """Read over the API; the traits and the resource classes."""
        self._list()
        self._read_providers(self._readings.to_read())
        if not self._request.owners:
            self._read_hidden_changes()
        self._read_owners()
        self._settle()
        traits = self._ask(self._client.list_traits)
        return traits, self._ask(self._client.list_resource_classes)

    def _list(self) -> None:
        """List the providers; those that were read and are gone are dropped."""
        gone = self._readings.replace_listing(self._ask(self._client.list_providers))
        self._note(self._read.intersection(gone), _DELETED)

    def _read_providers(self, uuids: Sequence[str], *, verify: bool = False) -> None:
        read = functools.partial(read_provider, self._client, verify=verify)
        for provider in self._context.each(read, uuids, "reading providers"):
            self._note_outcome(provider)
            if provider.reading is not None:
                self._doubtful |= self._readings.add(provider.reading)

    def _check_providers(self) -> None:
        """Mark what was deleted and created again, with its old generation, since it was read."""
        kept, outdated = self._readings.providers, self._readings.outdated
        unchecked = sorted(kept.keys() - outdated - self._verified - self._checked)

        def check(uuid: str) -> bool:
            with_inventories = bool(kept[uuid].inventories)
            try:
                stamp = read_stamp(self._client, uuid, with_inventories=with_inventories)
            except api_errors.NotFound:
                return False
            return stamp == kept[uuid].stamp

        equal = list(self._context.each(check, unchecked, "checking providers"))
        self._requests += len(unchecked)
        changed = [uuid for uuid, is_equal in zip(unchecked, equal, strict=True) if not is_equal]
        self._checked.update(set(unchecked).difference(changed))
        outdated.update(changed)

    def _note_outcome(self, provider: ProviderRead) -> None:
        """Count the requests; sort the provider into the sets."""
        self._requests += provider.requests
        self._read.add(provider.uuid)
        for group, applies in (
            (self._verified, provider.is_verified),
            (self._unstable, not provider.is_stable),
        ):
            (group.add if applies else group.discard)(provider.uuid)

    def _read_allocations(self, uuids: Sequence[str]) -> None:
        """Only the allocations, of providers whose generation has not changed."""
        read = functools.partial(read_allocations, self._client)
        answers = self._context.each(read, uuids, "reading allocations")
        for uuid, allocations in zip(uuids, answers, strict=True):
            self._requests += 1
            if allocations is None:
                self._readings.outdated.add(uuid)
            else:
                self._doubtful |= self._readings.replace_allocations(uuid, allocations)

    def _read_owners(self, torn: Iterable[str] = ()) -> None:
        """Read consumers that have changed, and those that may be ``torn`` or gone."""
        if not self._request.owners:
            return
        uuids = sorted({*self._readings.consumers_to_read(), *torn})
        consumers = self._context.each(
            self._client.show_allocations,
            uuids,
            "reading consumers",
        )
        self._readings.consumers.update((consumer.uuid, consumer) for consumer in consumers)
        self._requests += len(uuids)

    def _read_hidden_changes(self) -> None:
        """Find allocations that were deleted: that leaves the generation of their provider.

        So the only reading of a consumer, without owners, is compared with a second one.
        """
        self._doubtful.clear()
        providers = self._readings.providers.items()
        self._read_allocations([uuid for uuid, reading in providers if reading.allocations])

    def _settle(self) -> None:
        """Read again what changed since it was read, a limited number of times."""
        self._verified.clear()
        for _ in range(_ROUNDS):
            self._check_providers()
            self._list()
            changed = [uuid for uuid in self._readings.to_read() if uuid not in self._verified]
            torn = self._torn_consumers()
            if not changed and not torn:
                return
            LOG.info("%d providers, %d consumers changed during the save", len(changed), len(torn))
            self._note(changed, _CHANGED)
            providers = self._readings.providers_of(torn)
            self._read_providers(changed, verify=True)
            self._read_allocations([uuid for uuid in providers if uuid not in changed])
            self._read_owners(torn)
        self._check_missing()

    def _check_missing(self) -> None:
        """Refuse a cloud with a provider that Placement lists and does not show."""
        missing = [uuid for uuid in self._readings.listed if uuid not in self._readings.providers]
        if missing:
            self._list()
        still = [uuid for uuid in missing if uuid in self._readings.listed]
        if still:
            read_provider(self._client, still[0], is_listed=True)

    def _torn_consumers(self) -> list[str]:
        """The consumers of which only a part may have been read."""
        torn = self._readings.torn(owners=self._request.owners)
        if self._request.owners:
            return torn
        doubtful, self._doubtful = self._doubtful, set()
        return sorted(doubtful.union(torn))

    def _add_notes(self) -> None:
        self._note(self._readings.to_read(), _CHANGED)
        self._note(self._unstable, _NEVER_STABLE)
        if not self._request.owners:
            self._note(self._doubtful, readings.TORN_NOTE)

    def _note(self, uuids: Iterable[str], text: str) -> None:
        self._notes += [snapshot_file.SaveNote(uuid, text) for uuid in uuids]

    def _ask(self, call: Callable[[], T]) -> T:
        """The result of one request, which is counted, and sent again after a passing failure."""
        self._requests += 1
        return call()


def _metadata(client: api.Client, request: SaveRequest) -> snapshot_file.SnapshotMetadata:
    """The metadata of a save that begins. Requests: one GET, if versions are not known yet."""
    lowest, highest = client.transport.versions()
    return snapshot_file.SnapshotMetadata(
        origin=client.target.identity.place,
        target=client.target,
        started=time.time(),
        microversion=str(client.microversion),
        server_versions=f"{lowest} to {highest}",
        program=importlib.metadata.version("osc-placement"),
        owners=request.owners,
    )


#: How often a provider is read while it changes.
_ATTEMPTS = 3


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderRead:
    """One provider as read; ``reading`` is None if it was deleted.

    ``is_stable``: all responses have the same generation. ``is_verified``: the generation was
    also the same after the last of them, so the reading is a state that existed.
    """

    uuid: str
    reading: readings.Reading | None
    is_stable: bool = True
    is_verified: bool = False
    requests: int = 0


def read_provider(
    client: api.Client, uuid: str, *, verify: bool = False, is_listed: bool = False
) -> ProviderRead:
    """Inventories, aggregates, traits and allocations; repeated while the generation changes.

    Requests: four; one more with ``verify``, for a provider without inventories, and in every
    repetition, of which there are two at most. Errors: ApiError; NotFound if ``is_listed``.
    """
    requests = 0
    read = ProviderRead(uuid, None)
    for attempt in range(_ATTEMPTS):
        verified = verify or attempt > 0
        try:
            read = _read_once(client, uuid, verify=verified)
        except api_errors.NotFound:
            if is_listed:
                raise
            return ProviderRead(uuid, None, requests=requests + 1)
        requests += read.requests
        if read.is_stable:
            break
    return dataclasses.replace(read, requests=requests)


def _read_once(client: api.Client, uuid: str, *, verify: bool) -> ProviderRead:
    inventories = client.list_inventories(uuid)
    aggregates = client.list_aggregates(uuid)
    traits = client.list_provider_traits(uuid)
    allocations = client.list_provider_allocations(uuid)
    generations = [inventories.generation, aggregates.generation, traits.generation]
    generations.append(allocations.generation)
    modified = _seconds(inventories.updated)
    verify = verify or not inventories.inventories
    stable = True
    if verify:
        last = read_stamp(client, uuid, with_inventories=bool(inventories.inventories))
        generations.append(last.generation)
        stable = not inventories.inventories or last.modified == modified
        modified = last.modified
    reading = readings.Reading(
        uuid,
        inventories.generation,
        inventories.inventories,
        traits.traits,
        aggregates.aggregates,
        allocations.allocations,
        modified,
    )
    stable = stable and len(set(generations)) == 1
    return ProviderRead(uuid, reading, stable, stable and verify, len(generations))


def read_stamp(client: api.Client, uuid: str, *, with_inventories: bool) -> readings.Stamp:
    """What shows whether a provider has changed since it was read. Requests: one.

    ``with_inventories``: it had some, which change when the provider is created again, and not
    when it is renamed.
    """
    if with_inventories:
        inventories = client.list_inventories(uuid)
        return readings.Stamp(inventories.generation, _seconds(inventories.updated))
    shown = client.show_provider(uuid)
    return readings.Stamp(shown.generation, _seconds(shown.updated))


def _seconds(header: str | None) -> float | None:
    """A date of HTTP in seconds since the epoch; None without a valid one."""
    try:
        return email.utils.parsedate_to_datetime(header or "").timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def read_allocations(
    client: api.Client, uuid: str
) -> Mapping[str, responses.ProviderAllocation] | None:
    """The allocations of one provider; None if it was deleted. Requests: one."""
    try:
        return client.list_provider_allocations(uuid).allocations
    except api_errors.NotFound:
        return None
