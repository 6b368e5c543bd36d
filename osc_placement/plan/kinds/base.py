# SPDX-License-Identifier: Apache-2.0
"""What a kind of change provides: its state, its requests, its text, and its abilities.

The engine asks a kind for its abilities and never for its name.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Any, ClassVar, Generic, NamedTuple

from osc_placement.client import api
from osc_placement.neutron.api import Neutron
from osc_placement.plan import change, reasons
from osc_placement.plan.change import S

#: The value of each fact on one side of a change.
Side = Iterable[tuple["Fact", change.Value]]

#: For labels with UUIDs.
NO_NAMES: change.Names = {}


@dataclasses.dataclass(frozen=True, slots=True)
class Services:
    """The services that changes are written to; ``neutron`` is None where neutron is not used."""

    client: api.Client
    neutron: Neutron | None = None


class Fact(NamedTuple):
    """One value of a state, before and after.

    ``key`` identifies it in machine-readable rows. ``label`` is its text in tables and
    ``thing`` the text of what is absent when the value is None or False; tables leave out
    facts with ``shown`` False.
    """

    key: str
    before: change.Value
    after: change.Value
    label: str
    thing: str
    shown: bool = True

    @property
    def is_equal(self) -> bool:
        """Whether both sides are equal."""
        return change.values_equal(self.before, self.after)


class Write(NamedTuple, Generic[S]):
    """One change that is to be written now, and the state that it replaces."""

    subject: change.Subject
    after: S
    observed: change.Observed[S]


class ChangeType(abc.ABC, Generic[S]):
    """A kind of change. A new kind is a subclass, and a line in ``registry``."""

    #: The name in plan files and rows.
    name: str
    #: The class of its states.
    state: type[S]
    #: A state holds everything about its subject: a change replaces all of it.
    whole: ClassVar[bool] = False
    #: A change takes several requests, and can stop between them.
    in_parts: ClassVar[bool] = False
    #: Whether a change counts for --max-count.
    counted: ClassVar[bool] = True
    #: Why the run stops when such a change fails; empty when it continues.
    stops_run: ClassVar[str] = ""
    #: Whether results list such changes first.
    listed_first: ClassVar[bool] = False
    #: Whether ``Subject.uuid`` is a UUID.
    has_uuid: ClassVar[bool] = True
    #: Whether a change writes to neutron.
    needs_neutron: ClassVar[bool] = False
    #: How many changes one request can write; above 1, ``write_bulk`` is required.
    bulk_size: ClassVar[int] = 1
    #: What ``removes`` counts, for messages: "allocations". Empty if nothing is counted.
    unit: ClassVar[str] = ""

    @abc.abstractmethod
    def read(self, services: Services, subject: change.Subject, after: S) -> change.Observed[S]:
        """Read the state of a subject. Requests: one GET, if the kind does not say otherwise."""

    def read_to_undo(
        self, services: Services, subject: change.Subject, after: S
    ) -> change.Observed[S]:
        """Like ``read``; a deleted subject may count as undone."""
        return self.read(services, subject, after)

    @abc.abstractmethod
    def write(self, services: Services, write: Write[S]) -> change.Observed[S]:
        """Write a change and return the new state. Requests: one, under its generation."""

    def providers(self, state: S) -> Iterable[str]:
        """The UUIDs of the providers that a state names besides the subject."""
        return ()

    def consumers(self, subject: change.Subject, state: S) -> Iterable[str]:
        """The UUIDs of the consumers whose allocations a state has."""
        return ()

    @abc.abstractmethod
    def facts(self, before: S, after: S, names: change.Names = NO_NAMES) -> list[Fact]:
        """Every fact of both states; ``names`` replace UUIDs of providers in labels."""

    def select(self, present: S, after: S) -> S:
        """The part of ``found`` that a change to ``after`` concerns."""
        return present

    def refusals(
        self, services: Services, write: Write[S], allow: Collection[str]
    ) -> list[reasons.Reason]:
        """Why guards refuse a change whose subject has changed since it was planned.

        ``allow`` are the guards that the operator overrides.
        """
        return []

    def assumed(self, before: S) -> change.Observed[S] | None:
        """The state to assume without a read; the server refuses the write if it is wrong."""
        return None

    def check_rights(self, client: api.Client, changes: Sequence[tuple[S, S]]) -> None:
        """Check, before the first write, that the server will accept ``(before, after)`` pairs.

        Errors: UnsupportedVersion, Forbidden.
        """

    def removes(self, before: S, after: S) -> int:
        """How many objects of ``unit`` a change removes; a move or a replacement removes none."""
        return 0

    def bulk_key(self, before: S, after: S) -> Hashable:
        """Changes with an equal key can share a request."""
        return None

    def write_bulk(self, services: Services, writes: Sequence[Write[S]]) -> None:
        """Write several changes in one request: all of them or none."""
        raise NotImplementedError

    def in_placement(self, item: change.Change[S]) -> change.Change[Any]:
        """The same change without what it writes to other services."""
        return item

    def equal(self, one: S, other: S) -> bool:
        """Whether two states are equal, as far as a database can tell."""
        return all(fact.is_equal for fact in self.facts(one, other))

    def is_mix(self, present: S, before: S, after: S) -> bool:
        """Whether each fact of ``found`` is as before or as after."""
        other = {fact.key for fact in self.facts(before, present) if not fact.is_equal}
        return not other & {fact.key for fact in self.facts(after, present) if not fact.is_equal}

    def describe(self, side: Side) -> list[str]:
        """One side of a change for people: ``VCPU:total=4``, ``CUSTOM_A``, ``no CUSTOM_A``."""
        if self.whole:
            return [_text(fact, value) for fact, value in side if value is not None] or ["nothing"]
        return list(dict.fromkeys(_text(fact, value) for fact, value in side if fact.shown))

    def describe_change(self, before: S, after: S, names: change.Names = NO_NAMES) -> list[str]:
        """What a change does, for rows that show no states; empty if the rows show the effect."""
        return []

    def describe_drift(self, before: S, present: S) -> str:
        """What a subject is now, for a change that was planned on ``before``."""
        return ", ".join(self.describe(after_side(self.facts(before, present))))


def before_side(facts: Iterable[Fact]) -> Side:
    """The values before the change."""
    return [(fact, fact.before) for fact in facts]


def after_side(facts: Iterable[Fact]) -> Side:
    """The values after the change."""
    return [(fact, fact.after) for fact in facts]


def _text(fact: Fact, value: change.Value) -> str:
    if value is True:
        return fact.label
    if value is False or value is None:
        return f"no {fact.thing}"
    return f"{fact.label}={value}"
