# SPDX-License-Identifier: Apache-2.0
"""What a Placement in this process has besides its API."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable


class SavedCloud(Protocol):
    """What a snapshot file has besides the state of Placement.

    The cloud that was saved, and responses of nova and neutron, ``{"GET /path": body}``.
    """

    @property
    def origin(self) -> str: ...

    @property
    def has_owners(self) -> bool: ...

    @property
    def has_recording(self) -> bool: ...

    def recording(self) -> Mapping[str, Any]: ...


class StateRepository(Protocol):
    """Every record of a Placement: ``snapshot`` is its state, of ``engine.state``."""

    def snapshot(self) -> contextlib.AbstractContextManager[Any]: ...


class TableReading(Protocol):
    """The state of one moment; ``offline.tables`` describes the values."""

    @property
    def traits(self) -> Sequence[str]: ...

    @property
    def resource_classes(self) -> Sequence[str]: ...

    def providers(self) -> Iterator[dict[str, Any]]: ...

    def allocations(self) -> Iterator[tuple[str, str, int, dict[str, int]]]: ...

    def consumers(self) -> Iterator[tuple[str, int, str, str, str | None]]: ...


class StateTables(Protocol):
    """Placement's own tables, which one transaction reads."""

    def reading(self) -> contextlib.AbstractContextManager[TableReading]: ...


@runtime_checkable
class LocalPlacement(Protocol):
    """The reference server on a file, or openstack-placement on its database.

    ``repository``: None for openstack-placement. ``saved_cloud``: of a snapshot file. ``database``:
    openstack-placement's configuration file and release, and its database without the password.
    ``tables``: of this database; None for the reference server. ``users``: its other users.
    ``load_for_writing``: may add standard names; the note about them.
    """

    @property
    def repository(self) -> StateRepository | None: ...

    @property
    def saved_cloud(self) -> SavedCloud | None: ...

    @property
    def database(self) -> str: ...

    @property
    def tables(self) -> StateTables | None: ...

    @property
    def users(self) -> Sequence[str]: ...

    def load_for_writing(self) -> str: ...
