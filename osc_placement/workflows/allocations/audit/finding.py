"""What auditing finds: one thing that is wrong, how that shows, and what would mend it. Pure.

Made by the judges (``stranger``, ``place``, ``size``, ``lack``, ``offer``), gathered by ``audit``.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Iterable, Mapping

from osc_placement.model import allocation
from osc_placement.plan import change
from osc_placement.workflows.allocations import snapshot as pictures


class Code(enum.StrEnum):
    """Why something is a finding. About consumers, all but ``unknown`` can be repaired."""

    ORPHANED = "orphaned"
    DOUBLED = "doubled"
    MISSING = "missing"
    WRONG_HOST = "wrong-host"
    WRONG_SIZE = "wrong-size"
    WRONG_OWNER = "wrong-owner"
    INCOMPLETE = "incomplete"
    OVER_CAPACITY = "over-capacity"
    STALE_PROVIDER = "stale-provider"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class Repair:
    """What becomes of a consumer: ``parts`` of it by provider, empty ones are removed.

    ``owner`` replaces its owner; of that, a type of None stays as it is. ``premise`` is what
    nova must still say when it is written. ``bound`` is ``{fact of a port: what it is, what it
    shall be}``. ``frees``: it only takes away, and goes first.
    """

    parts: allocation.Allocations = dataclasses.field(default_factory=dict)
    owner: pictures.Owner | None = None
    premise: change.Facts = dataclasses.field(default_factory=dict)
    bound: Mapping[str, tuple[change.Value, change.Value]] = dataclasses.field(default_factory=dict)
    frees: bool = False

    def of(self, before: allocation.Consumer) -> allocation.Consumer:
        """The consumer when it is repaired."""
        parts = {**before.allocations, **self.parts}
        after = dataclasses.replace(
            before, allocations={uuid: part for uuid, part in parts.items() if part}
        )
        if self.owner is None:
            return after
        return dataclasses.replace(
            after,
            project_id=self.owner.project_id,
            user_id=self.owner.user_id,
            consumer_type=self.owner.type or before.consumer_type,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """``subject`` is a consumer, by the name that people know it by, or a provider.

    ``hosts`` are the names of what it is about: hosts, or providers that are none.
    ``proposed`` says in words what ``repair`` does; or, where there is none, what to do.
    """

    code: Code
    subject: change.Subject
    hosts: tuple[str, ...]
    evidence: str
    proposed: str
    repair: Repair | None = None

    def doubted(self, why: str) -> Finding:
        """The same when it is not sure enough to be repaired: ``why`` tells."""
        return dataclasses.replace(
            self,
            code=Code.UNKNOWN,
            evidence=f"it seems {self.code}: {self.evidence}",
            proposed=f"left alone: {why}",
            repair=None,
        )

    def sort_key(self) -> tuple[bool, str, change.Subject]:
        """Findings of a kind together, what is unsure last."""
        return (self.code is Code.UNKNOWN, self.code, self.subject)


@dataclasses.dataclass(frozen=True, slots=True)
class AuditContext:
    """What is known beside the picture.

    ``now`` (UTC) and ``min_age`` (seconds) keep off what has just happened. ``doubts`` is
    ``{consumer uuid: why nova cannot tell that it is no server}``; ``computes`` are providers
    that nova-compute has marked as its own. ``others`` names another service of this cloud that
    allocates CPUs and memory; empty when there is none. ``named`` are the hosts and providers
    that the operator speaks of.
    """

    now: datetime.datetime
    min_age: float = 0.0
    doubts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    computes: frozenset[str] = frozenset()
    others: str = ""
    named: frozenset[str] = frozenset()

    def too_young(self, stamps: Iterable[str]) -> str:
        """Why nothing is to be repaired yet that changed at these times; empty when it may be.

        A time that is farther off than ``min_age`` in either direction is another clock's.
        """
        ages = [abs((self.now - _time(stamp)).total_seconds()) for stamp in stamps if stamp]
        least = min(ages, default=self.min_age)
        return f"it changed {least:.0f} seconds ago (--min-age)" if least < self.min_age else ""


def amounts(resources: allocation.Resources) -> str:
    """``VCPU=1, MEMORY_MB=512``."""
    return ", ".join(f"{name}={amount}" for name, amount in sorted(resources.items())) or "nothing"


def emptied(provider_uuids: Iterable[str]) -> allocation.Allocations:
    """Parts of a consumer that are removed."""
    return {uuid: {} for uuid in provider_uuids}


def told(picture: pictures.CloudSnapshot, allocations: allocation.Allocations) -> str:
    """``VCPU=1 on cmp-0001; DISK_GB=20 on nfs-share``, by name."""
    parts = sorted((place_of(picture, uuid), amounts(part)) for uuid, part in allocations.items())
    return "; ".join(f"{what} on {name}" for name, what in parts) or "nothing"


def place_of(picture: pictures.CloudSnapshot, provider_uuid: str) -> str:
    """A compute node by its host, where that has no other; any other provider by its name."""
    node = picture.compute_nodes.get(provider_uuid)
    if node is None or len(picture.nodes_of_host[node.host]) > 1:
        return name_of(picture, provider_uuid)
    return node.host


def name_of(picture: pictures.CloudSnapshot, provider_uuid: str) -> str:
    """What a provider is called."""
    known = picture.providers.get(provider_uuid)
    return known.name if known else provider_uuid


def hosts_of(picture: pictures.CloudSnapshot, provider_uuids: Iterable[str]) -> tuple[str, ...]:
    """The hosts of the trees that providers are in; roots that are no compute node by name."""
    roots = {picture.root_of(uuid) for uuid in provider_uuids}
    nodes = picture.compute_nodes
    return tuple(
        sorted({nodes[root].host if root in nodes else name_of(picture, root) for root in roots})
    )


def _time(stamp: str) -> datetime.datetime:
    """A time as nova tells it, with or without a zone; all of them are UTC."""
    found = datetime.datetime.fromisoformat(stamp)
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)
