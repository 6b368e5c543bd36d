"""A change as a value: facts about one thing, as they are and as they shall be.

A *fact* is a key and a JSON scalar. Which facts there are depends on the kind of change:

=================  =====================  ==========================================
kind               key                    value; what it is when there is no such fact
=================  =====================  ==========================================
inventories        ``VCPU:total``         a number; None
traits             ``CUSTOM_GOLD``        True; False
aggregates         the aggregate's UUID   True; False
trait              the trait's name       True; False (whether it exists at all)
allocations        ``<provider>:VCPU``    a number; None. A consumer's, *whole*: also its
                                          ``project_id``, ``user_id``, ``consumer_type``
provider           ``name``, ``parent``   a text (a parent's UUID); None. Without a name
                                          there is no provider
bound allocations  those of allocations,  the same, and a port's group is a provider's UUID,
                   ``port <port>:<id>``   for which neutron is written too; None
reshape            see ``reshape.facts``  inventories and allocations of whole trees
=================  =====================  ==========================================

A *whole* kind speaks of everything that there is about its subject: a fact that a change
does not name must not be there.

A change knows nothing of HTTP: ``kind`` maps it to requests. Made by the ``plan_*``
functions, carried by ``plan``, applied by ``execute``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

Value = bool | int | float | str | None
Facts = Mapping[str, Value]

#: ``{provider uuid: its name}``
Names = Mapping[str, str]

INVENTORIES = "inventories"
TRAITS = "traits"
AGGREGATES = "aggregates"
TRAIT = "trait"
ALLOCATIONS = "allocations"
BOUND = "bound allocations"
PROVIDER = "provider"
RESHAPE = "reshape"

#: What a fact is when nothing is known of its key.
ABSENT: Mapping[str, Value] = {
    INVENTORIES: None,
    TRAITS: False,
    AGGREGATES: False,
    TRAIT: False,
    ALLOCATIONS: None,
    BOUND: None,
    PROVIDER: None,
    RESHAPE: None,
}

#: The kinds that speak of everything that there is about their subject.
WHOLE = frozenset({ALLOCATIONS, BOUND})

#: MySQL keeps an allocation ratio as a single-precision float and tells six digits of it.
_RATIO_TOLERANCE = 5e-6

#: So many facts of a reshape are told when they are not as they were.
_TOLD = 5


class Subject(NamedTuple):
    """What a change is about; sorts by name, as operators look for it."""

    name: str
    uuid: str


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One thing to do: ``before`` and ``after`` have the same keys and differ in some.

    ``generation`` is the provider generation it was decided on, None where there is none.
    ``stage`` orders: all changes of a stage are settled before the next one begins.
    ``irreversible`` says why undo cannot take it back; empty when it can. ``premise`` is
    what must still be so elsewhere (in nova) when it is carried out; whoever runs the plan
    brings the eyes for it. ``group``: changes of one group build on each other, so that
    when one was not carried out, those of later stages are not begun.
    """

    kind: str
    subject: Subject
    before: Facts
    after: Facts
    generation: int | None = None
    reason: str = ""
    stage: int = 0
    irreversible: str = ""
    premise: Facts = dataclasses.field(default_factory=dict)
    group: str = ""

    @property
    def key(self) -> str:
        """Identifies the change within its plan."""
        return key(self.kind, self.subject)

    def sort_key(self) -> tuple[int, Subject, str]:
        """The one order in which changes are listed and begun."""
        return (self.stage, self.subject, self.kind)

    def replace(self, **fields: Any) -> Change:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **fields)

    def inverse(self) -> Change:
        """The change that takes this one back; it was decided on no known generation."""
        return self.replace(
            before=self.after,
            after=self.before,
            generation=None,
            reason="",
            stage=-self.stage,
            premise={},
        )

    def to_dict(self) -> dict[str, Any]:
        """The form of a plan file."""
        document = dataclasses.asdict(self)
        document.update(
            subject=self.subject._asdict(), before=dict(self.before), after=dict(self.after)
        )
        return document

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Change:
        """Read ``to_dict``'s form; LookupError, TypeError or ValueError for anything else."""
        change = cls(**{**document, "subject": Subject(**document["subject"])})
        if change.kind not in ABSENT:
            raise ValueError(f"unknown kind of change {change.kind!r}")
        if change.before.keys() != change.after.keys():
            raise ValueError(f"{change.key}: before and after speak of different things")
        return change


@dataclasses.dataclass(frozen=True, slots=True)
class Skipped:
    """One thing that a plan does not touch, and why.

    ``unchanged``: it is as wanted already (``before`` and ``after`` are the same).
    Otherwise it is left alone for ``reason``; ``refused`` tells that this is a guard's
    or a limit's doing, so that the operator's wish stays open.
    """

    kind: str
    subject: Subject
    before: Facts
    after: Facts
    reason: str = ""
    unchanged: bool = False
    refused: bool = False

    def sort_key(self) -> tuple[int, Subject, str]:
        """As a change's, in the same list."""
        return (0, self.subject, self.kind)

    def to_dict(self) -> dict[str, Any]:
        """The form of a plan file."""
        document = dataclasses.asdict(self)
        document.update(
            subject=self.subject._asdict(), before=dict(self.before), after=dict(self.after)
        )
        return document

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Skipped:
        """Read ``to_dict``'s form; LookupError or TypeError for anything else."""
        return cls(**{**document, "subject": Subject(**document["subject"])})


@dataclasses.dataclass(frozen=True, slots=True)
class Observed:
    """What one read told: every fact, and in ``whole`` what a write must repeat."""

    generation: int | None
    facts: Facts
    whole: Any = None


def key(kind: str, subject: Subject) -> str:
    """What a plan can say of one thing only once."""
    return f"{kind} {subject.uuid}"


def same(one: Value, other: Value) -> bool:
    """Whether two values of a fact are the same, as far as a database can tell floats."""
    if isinstance(one, float) or isinstance(other, float):
        if not isinstance(one, int | float) or not isinstance(other, int | float):
            return False
        return math.isclose(one, other, rel_tol=_RATIO_TOLERANCE)
    return one == other


def agree(one: Facts, other: Facts) -> bool:
    """Whether two sets of facts say the same; what one does not name is None there."""
    return all(same(one.get(key), other.get(key)) for key in one.keys() | other.keys())


def current(kind: str, keys: Iterable[str], observed: Facts) -> dict[str, Value]:
    """What ``observed`` says of each of ``keys``; of a whole kind, all that it says."""
    now = {key: observed.get(key, ABSENT[kind]) for key in keys}
    return {**now, **observed} if kind in WHOLE else now


def describe(kind: str, facts: Facts, between: str = ", ", names: Names | None = None) -> str:
    """Facts as an operator reads them: ``VCPU:total=4``, ``CUSTOM_A``, ``no CUSTOM_A``.

    A resource class of which every fact is None reads ``no VCPU``; of a whole kind, what is
    not there is not told. ``names`` stand in place of the UUIDs of providers.
    """
    if kind in WHOLE:
        told = {
            _named(key, names or {}): value for key, value in facts.items() if value is not None
        }
        return between.join(f"{key}={value}" for key, value in told.items()) or "nothing"
    if kind == PROVIDER:
        return _identity(facts, between, names or {})
    if kind == RESHAPE:
        return between.join(dict.fromkeys(_moved(facts, names or {})))
    return between.join(dict.fromkeys(_describe(key, value) for key, value in facts.items()))


def departure(kind: str, now: Facts, before: Facts) -> str:
    """``now`` as an operator reads it; of a reshape's many facts, those that were others before."""
    if kind != RESHAPE:
        return describe(kind, now)
    differing = [key for key, value in now.items() if not same(value, before.get(key))]
    totals = {key.removesuffix(":total") for key in differing if key.endswith(":total")}
    told = [
        f"{key}={now[key]} instead of {before.get(key)}"
        for key in differing
        # Where the total is another, the other fields say no more.
        if key.endswith(":total") or key.partition(":")[0] not in totals
    ]
    more = len(told) - _TOLD
    return ", ".join(told[:_TOLD]) + (f" and {more} more" if more > 0 else "")


def _named(key: str, names: Names) -> str:
    uuid, colon, rest = key.partition(":")
    return f"{names.get(uuid, uuid)}{colon}{rest}"


def _identity(facts: Facts, between: str, names: Names) -> str:
    """What a provider is called, and what it stands below."""
    if facts.get("name", "") is None:
        return "no provider"
    told = {key: names.get(str(value), value) for key, value in facts.items()}
    return between.join(_describe(key, value) for key, value in told.items())


def _moved(facts: Facts, names: Names) -> Iterator[str]:
    """What a reshape says of totals and allocations."""
    for key, value in facts.items():
        what, *rest = key.split(" ")
        if what == "others" or (what == "inventory" and not key.endswith(":total")):
            continue
        told = " ".join(names.get(word, word) for word in rest)
        yield f"no {told.partition(':')[0]}" if value is None else f"{told}={value}"


def _describe(key: str, value: Value) -> str:
    if value is True:
        return key
    if value is False or value is None:
        return f"no {key.partition(':')[0]}"
    return f"{key}={value}"
