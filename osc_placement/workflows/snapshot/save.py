# SPDX-License-Identifier: Apache-2.0
"""Saves a cloud in a snapshot file; a save that was killed continues.

Both are one procedure: list the providers, read those that the file does not have at their
generation, then list them again and read what changed in between. Readings go to the file at
once. On the database of Placement itself (--os-placement-config) one transaction takes their
place: it sees one moment, so nothing is read twice.
"""

from __future__ import annotations

import contextlib
import dataclasses
import email.utils
import functools
import importlib.metadata
import itertools
import logging
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from osc_placement import errors
from osc_placement.client import api, api_errors, local, responses, retry
from osc_placement.model import command_line
from osc_placement.plan import file as plan_file, plan
from osc_placement.server.store.errors import InUse, StoreError
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.snapshot import file as snapshot_file, readings, staging

if TYPE_CHECKING:
    from osc_placement.workflows.snapshot.nova import Recording

LOG = logging.getLogger(__name__)


T = TypeVar("T")

#: Readings per transaction: what a kill can lose.
_BATCH = 100

#: How often providers that changed during the save are read again.
_ROUNDS = 3

#: Providers that may fail to be read before the cloud counts as unavailable.
_MOST_FAILURES = 10

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
    """What a save did: the metadata of the file, and how much was read.

    ``continued``: an unfinished save was continued.
    """

    metadata: snapshot_file.SnapshotMetadata
    counts: Mapping[str, int]
    notes: Sequence[snapshot_file.SaveNote]
    providers_read: int
    consumers_read: int
    continued: bool = False


def save(
    client: api.Client,
    request: SaveRequest,
    context: ReadContext | None = None,
    *,
    is_kept: bool = True,
) -> SaveReport:
    """Save the state of a cloud in a new file, or continue a save.

    Each provider and each consumer is saved in a state that existed, except where a note of the
    file says otherwise. Requests: two listings of providers, one of traits and one of resource
    classes; one per provider, and four more (five without inventories) if the file does not have
    it in its state; one per consumer on these providers; to continue, one more per provider with
    allocations that the file has. Without owners none per consumer, but one more per
    provider with allocations. For a provider that changes during the save, up to 15 more
    and one per consumer on it in each of three rounds, and a listing per round; for a consumer
    that changes, one and one per provider of it; for one that is gone, one. With the tables of
    Placement (``client.tables``): none.
    Errors: PlacementError; the unfinished file stays, and the same call continues; with the tables,
    and unless ``is_kept``, nothing stays.
    """
    client.require_feature("consumer generation", "snapshots")
    context = context or ReadContext()
    if request.also is not None:
        request.also.check()
    partial = partial_path(request.path)
    continued = partial.exists()
    with snapshot_file.explained():
        if request.path.exists():
            raise errors.PlacementError(
                f"{command_line.quote(str(request.path))} exists: give another file; nothing was"
                " changed"
            )
        with (
            continuable(partial),
            _opened(partial, is_kept=is_kept and client.tables is None) as file,
        ):
            saving = _Save(client, file, request, context)
            metadata = saving.run()
        publish(request.path)
        with snapshot_file.SnapshotFile(str(request.path)) as finished:
            return SaveReport(
                metadata,
                finished.counts(),
                finished.notes(),
                saving.providers_read,
                saving.consumers_read,
                continued and client.tables is None,
            )


@contextlib.contextmanager
def saved(
    client: api.Client, context: ReadContext, *, owners: bool = True, also: Recording | None = None
) -> Iterator[pathlib.Path]:
    """A cloud in a temporary file, during the block. Requests: those of ``save``."""
    with tempfile.TemporaryDirectory() as folder:
        request = SaveRequest(pathlib.Path(folder) / "live.sqlite", owners=owners, also=also)
        save(client, request, context, is_kept=False)
        yield request.path


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
        self._failures: dict[str, api_errors.ApiError] = {}
        self._notes: list[snapshot_file.SaveNote] = []
        self._metadata = _metadata(client, request)
        self.providers_read = self.consumers_read = 0

    def run(self) -> snapshot_file.SnapshotMetadata:
        """All steps, from the first listing to the finished file."""
        if self._file.metadata is not None:
            check_origin(self._file.path, self._file.metadata, self._client.target)
        self._readings = self._file.begin(self._metadata)
        tables = self._client.tables
        traits, classes = self._read_tables(tables) if tables else self._read_service()
        if self._request.also is not None:
            self._request.also.record(self._file)
            self._metadata = dataclasses.replace(self._metadata, nova_saved=time.time())
        self._add_notes()
        now = time.time()
        changes, notes = readings.records(
            self._readings, traits, classes, owners=self._request.owners, now=now
        )
        ended = dataclasses.replace(self._metadata, finished=now, requests=self._requests)
        return self._file.finish(ended, changes, [*self._notes, *notes])

    def _read_tables(self, tables: local.StateTables) -> tuple[Sequence[str], Sequence[str]]:
        """Read all in one transaction; the traits and the resource classes."""
        with tables.reading() as reading:
            self._readings = readings.of_tables(reading, owners=self._request.owners)
            self.providers_read = len(self._readings.providers)
            self.consumers_read = len(self._readings.consumers)
            return reading.traits, reading.resource_classes

    def _read_service(self) -> tuple[Sequence[str], Sequence[str]]:
        """Read over the API; the traits and the resource classes."""
        continues = bool(self._readings.providers)
        self._list()
        self._read_providers(self._readings.to_read())
        if continues:
            self._check_providers()
            self._read_providers(self._readings.to_read())
        if continues or not self._request.owners:
            self._read_hidden_changes()
        self._read_owners()
        self._settle()
        self.providers_read = len(self._read)
        traits = self._ask(self._client.list_traits)
        return traits, self._ask(self._client.list_resource_classes)

    def _list(self) -> None:
        """List the providers; those that were read and are gone are dropped."""
        gone = self._readings.replace_listing(self._ask(self._client.list_providers))
        self._note(self._read.intersection(gone), _DELETED)

    def _read_providers(self, uuids: Sequence[str], *, verify: bool = False) -> None:
        read = functools.partial(read_provider, self._client, verify=verify)
        results = self._context.each(read, uuids, "reading providers")
        for batch in _batches(results):
            for provider in batch:
                self._note_outcome(provider)
            new = [provider.reading for provider in batch if provider.reading is not None]
            for reading in new:
                self._doubtful |= self._readings.add(reading)
            self._file.keep(new)

    def _check_providers(self) -> None:
        """Mark what was deleted and created again, with its old generation, since it was read."""
        kept, outdated = self._readings.providers, self._readings.outdated
        unchecked = sorted(kept.keys() - outdated - self._verified - self._checked)

        def check(uuid: str) -> bool:
            with_inventories = bool(kept[uuid].inventories)
            try:
                stamp = read_stamp(self._client, uuid, with_inventories=with_inventories)
            except api_errors.ApiError as error:
                if error.status in api_errors.ACCESS_DENIED:
                    raise
                return False
            return stamp == kept[uuid].stamp

        equal = list(self._context.each(check, unchecked, "checking providers"))
        self._requests += len(unchecked)
        changed = [uuid for uuid, is_equal in zip(unchecked, equal, strict=True) if not is_equal]
        self._checked.update(set(unchecked).difference(changed))
        outdated.update(changed)

    def _note_outcome(self, provider: ProviderRead) -> None:
        """Count the requests; sort the provider into the sets. Errors: ApiError for too many."""
        self._requests += provider.requests
        if provider.error is not None:
            LOG.info("provider %s: %s", provider.uuid, provider.error)
            self._failures[provider.uuid] = provider.error
            if len(self._failures) > _MOST_FAILURES:
                raise provider.error
            return
        self._failures.pop(provider.uuid, None)
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
            self._doubtful |= self._readings.replace_allocations(uuid, allocations)

    def _read_owners(self, torn: Iterable[str] = ()) -> None:
        """Read consumers that have changed, and those that may be ``torn`` or gone."""
        if not self._request.owners:
            return
        uuids = sorted({*self._readings.consumers_to_read(), *torn})
        results = self._context.each(
            lambda uuid: retry.read(lambda: self._client.show_allocations(uuid)),
            uuids,
            "reading consumers",
        )
        for batch in _batches(results):
            self._requests += len(batch)
            self.consumers_read += len(batch)
            self._readings.consumers.update((one.uuid, one) for one in batch)
            self._file.keep_consumers(batch)

    def _read_hidden_changes(self) -> None:
        """Find allocations that were deleted: that leaves the generation of their provider.

        So a reading of an earlier run, and the only reading of a consumer without owners, is
        compared with a second one.
        """
        first = self._read if self._request.owners else set[str]()
        self._doubtful.clear()
        self._read_allocations(
            [
                uuid
                for uuid, reading in self._readings.providers.items()
                if reading.allocations and uuid not in first
            ]
        )

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

    def _torn_consumers(self) -> list[str]:
        """The consumers of which only a part may have been read."""
        torn = self._readings.torn(owners=self._request.owners)
        if self._request.owners:
            return torn
        doubtful, self._doubtful = self._doubtful, set()
        return sorted(doubtful.union(torn))

    def _add_notes(self) -> None:
        changed = [uuid for uuid in self._readings.to_read() if uuid not in self._failures]
        self._note(changed, _CHANGED)
        self._note(self._unstable, _NEVER_STABLE)
        if not self._request.owners:
            self._note(self._doubtful, readings.TORN_NOTE)
        self._notes += [
            snapshot_file.SaveNote(uuid, f"not read: {error}")
            for uuid, error in self._failures.items()
        ]

    def _note(self, uuids: Iterable[str], text: str) -> None:
        self._notes += [snapshot_file.SaveNote(uuid, text) for uuid in uuids]

    def _ask(self, call: Callable[[], T]) -> T:
        """The result of one request, which is counted, and sent again after a passing failure."""
        self._requests += 1
        return retry.read(call)


def _metadata(client: api.Client, request: SaveRequest) -> snapshot_file.SnapshotMetadata:
    """The metadata of a save that begins. Requests: one GET, if versions are not known yet."""
    lowest, highest = client.transport.versions()
    return snapshot_file.SnapshotMetadata(
        origin=plan.place(client.target),
        target=client.target,
        started=time.time(),
        microversion=str(client.microversion),
        server_versions=f"{lowest} to {highest}",
        program=importlib.metadata.version("osc-placement"),
        owners=request.owners,
    )


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    """The items in lists of ``_BATCH``, the last one shorter."""
    iterator = iter(items)
    return iter(lambda: list(itertools.islice(iterator, _BATCH)), [])


#: How often a provider is read while it changes.
_ATTEMPTS = 3


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderRead:
    """One provider as read; ``reading`` is None if it was deleted, or for an ``error``.

    ``is_stable``: all responses have the same generation. ``is_verified``: the generation was
    also the same after the last of them, so the reading is a state that existed.
    """

    uuid: str
    reading: readings.Reading | None
    is_stable: bool = True
    is_verified: bool = False
    requests: int = 0
    error: api_errors.ApiError | None = None


def read_provider(client: api.Client, uuid: str, *, verify: bool = False) -> ProviderRead:
    """Inventories, aggregates, traits and allocations; repeated while the generation changes.

    Requests: four; one more with ``verify``, for a provider without inventories, and in every
    repetition, of which there are two at most.
    """
    requests = 0
    read = ProviderRead(uuid, None)
    for attempt in range(_ATTEMPTS):
        verified = verify or attempt > 0
        try:
            read = _read_once(client, uuid, verify=verified)
        except api_errors.NotFound:
            return ProviderRead(uuid, None, requests=requests + 1)
        except api_errors.ApiError as error:
            if api_errors.concerns_all(error):
                raise
            return ProviderRead(uuid, None, requests=requests + 1, error=error)
        requests += read.requests
        if read.is_stable:
            break
    return dataclasses.replace(read, requests=requests)


def _read_once(client: api.Client, uuid: str, *, verify: bool) -> ProviderRead:
    inventories = retry.read(lambda: client.list_inventories(uuid))
    aggregates = retry.read(lambda: client.list_aggregates(uuid))
    traits = retry.read(lambda: client.list_provider_traits(uuid))
    allocations = retry.read(lambda: client.list_provider_allocations(uuid))
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
        inventories = retry.read(lambda: client.list_inventories(uuid))
        return readings.Stamp(inventories.generation, _seconds(inventories.updated))
    shown = retry.read(lambda: client.show_provider(uuid))
    return readings.Stamp(shown.generation, _seconds(shown.updated))


def _seconds(header: str | None) -> float | None:
    """A date of HTTP in seconds since the epoch; None without a valid one."""
    try:
        return email.utils.parsedate_to_datetime(header or "").timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def read_allocations(client: api.Client, uuid: str) -> Mapping[str, responses.ProviderAllocation]:
    """The allocations of one provider, none of a deleted one. Requests: one."""
    try:
        return retry.read(lambda: client.list_provider_allocations(uuid)).allocations
    except api_errors.NotFound:
        return {}


def partial_path(path: pathlib.Path) -> pathlib.Path:
    """The file of an unfinished save."""
    return path.with_name(f"{path.name}.partial")


def check_origin(path: str, metadata: snapshot_file.SnapshotMetadata, target: str) -> None:
    """Refuse a file of another cloud. Errors: PlacementError."""
    if metadata.origin != plan.place(target):
        raise errors.PlacementError(
            f"{path} is a snapshot of {metadata.target}, this is {target}: choose that"
            " cloud, or give another file; nothing was changed"
        )


@contextlib.contextmanager
def continuable(partial: pathlib.Path) -> Iterator[None]:
    """Name the file of an unfinished save in errors that end it."""
    try:
        yield
    except (errors.PlacementError, StoreError) as error:
        if not partial.exists() or isinstance(error, InUse):
            raise
        raise errors.PlacementError(
            f"{error}\nThe snapshot is not complete. {partial} keeps what was read: run the same"
            " command again to continue"
        ) from error


@contextlib.contextmanager
def _opened(partial: pathlib.Path, *, is_kept: bool) -> Iterator[staging.Staging]:
    """The unfinished file; unless ``is_kept`` an error deletes it: no save could continue it."""
    file = staging.Staging(str(partial))
    try:
        with file:
            yield file
    except BaseException:
        if not is_kept:
            partial.unlink(missing_ok=True)
        raise


def publish(path: pathlib.Path) -> None:
    """Give the finished file its name."""
    with plan_file.explained(path):
        os.replace(partial_path(path), path)
        plan_file.sync_directory(path.resolve().parent)
