# SPDX-License-Identifier: Apache-2.0
"""One change as a value: subject, state before and after, what nova must still report.

The state is a frozen value of the kind of change; ``plan/kinds`` has one module per kind,
with its state and the requests that read and write it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from osc_placement.plan import forms, reasons


@dataclasses.dataclass(frozen=True, slots=True)
class ServerState(forms.JsonObject):
    """A server as nova reported it; ``resources`` is ``{resource class: amount}``."""

    host: str | None
    node: str | None
    vm_state: str | None
    task_state: str | None
    resources: Mapping[str, forms.Amount]


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeState(forms.JsonObject):
    """A host as nova reported it, by the name and the UUID of its root provider.

    ``service`` is ``enabled``, ``disabled``, one of these ``and down``, or ``none``.
    """

    name: str
    uuid: str
    has_node: bool
    service: str


@dataclasses.dataclass(frozen=True, slots=True)
class AggregatesState(forms.JsonObject):
    """What nova's host aggregates say of a host, by its name in nova.

    ``members`` is ``{aggregate uuid: whether the host is in it}``, and ``metadata`` is ``{key: its
    values in all aggregates of the host}``.
    """

    host: str
    members: Mapping[str, bool]
    metadata: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Precondition(forms.JsonObject):
    """The server must still be in this state; None: nova must have no such server.

    ``no_migration``: nova must not have a migration of the consumer's UUID either. ``host`` and
    ``aggregates``: the change is about a host, which must still be in this state, and in these
    host aggregates, and not about a server.
    """

    server: ServerState | None = None
    no_migration: bool = False
    host: ComputeState | None = None
    aggregates: AggregatesState | None = None


#: ``{provider uuid: its name}``
Names = Mapping[str, str]

#: One fact of a state, as rows and comparisons use it.
Value = bool | int | float | str | None

#: MySQL keeps an allocation ratio as a single-precision float and returns six digits of it.
_RATIO_TOLERANCE = 5e-6


class State(Protocol):
    """The state of one thing, as far as a change concerns it."""

    def to_dict(self) -> dict[str, Any]:
        """The form of a plan file."""


#: The states of one kind of change; ``Change[Any]`` is one of any kind.
S = TypeVar("S", bound=State)


class Subject(NamedTuple):
    """The thing that a change is about; sorts by name, as operators look for it."""

    name: str
    uuid: str


@dataclasses.dataclass(frozen=True, slots=True)
class Change(forms.JsonObject, Generic[S]):
    """One thing to do: ``before`` and ``after`` are states of one kind.

    ``generation`` is the provider generation on which the change was decided, None without one.
    ``stage`` orders: all changes of a stage end before the next stage begins.
    ``irreversible`` says why undo cannot restore ``before``; empty when it can.
    ``precondition`` must still be true in nova when the change is written; the caller of the
    engine supplies the function that checks it. ``group``: changes of one group depend on
    each other; after a failure those of later stages do not begin. ``capacity`` is ``{resource
    class: how much the change adds}``; ``over``: classes with more usage than capacity after it.
    """

    kind: str
    subject: Subject
    before: S
    after: S
    generation: int | None = None
    reason: str = ""
    stage: int = 0
    irreversible: str = ""
    precondition: Precondition | None = None
    group: str = ""
    capacity: Mapping[str, int] = dataclasses.field(default_factory=dict)
    over: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Identifies the change within its plan."""
        return key(self.kind, self.subject)

    def sort_key(self) -> tuple[int, Subject, str]:
        """The order in which changes are listed and begun."""
        return (self.stage, self.subject, self.kind)

    def inverse(self) -> Change[S]:
        """The change that undoes this one, for any generation."""
        return dataclasses.replace(
            self,
            before=self.after,
            after=self.before,
            generation=None,
            reason="",
            stage=-self.stage,
            precondition=None,
            capacity={},
            over=(),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Skipped(forms.JsonObject):
    """One thing that a plan does not change, and why.

    ``unchanged``: it is already in the requested state. ``refused``: a guard or a limit
    prevents the change, so that the request is not met. ``code``: the code of ``reason``, or
    of several reasons, separated by commas. The states are None where unknown.
    """

    kind: str
    subject: Subject
    before: State | None = None
    after: State | None = None
    reason: str = ""
    code: str = reasons.Code.NONE
    unchanged: bool = False
    refused: bool = False

    def sort_key(self) -> tuple[int, Subject, str]:
        """The order in the list of changes."""
        return (0, self.subject, self.kind)


@dataclasses.dataclass(frozen=True, slots=True)
class Observed(Generic[S]):
    """The result of one read; ``source`` holds what a write needs besides the state."""

    generation: int | None
    state: S
    source: Any = None


def key(kind: str, subject: Subject) -> str:
    """The key of a change; a plan has at most one change per key."""
    return f"{kind} {subject.uuid}"


def values_equal(one: Value, other: Value) -> bool:
    """Compare two values of a fact, as far as a database distinguishes floats."""
    if isinstance(one, float) or isinstance(other, float):
        if not isinstance(one, int | float) or not isinstance(other, int | float):
            return False
        return math.isclose(one, other, rel_tol=_RATIO_TOLERANCE)
    return one == other
