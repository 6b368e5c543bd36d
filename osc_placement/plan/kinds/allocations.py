"""Changes of a consumer's allocations and owner: a write replaces all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

from osc_placement import microversion
from osc_placement.client import api
from osc_placement.model import allocation, shared
from osc_placement.plan import change
from osc_placement.plan.kinds import base, forms

TYPE_STAYS = "a consumer's type cannot be unset"

#: The properties of a consumer's state.
STATE: dict[str, forms.Schema] = {
    "allocations": forms.ALLOCATIONS,
    **dict.fromkeys(("project_id", "user_id", "consumer_type"), forms.OPTIONAL_TEXT),
}

_OWNER = ("project_id", "user_id", "consumer_type")


@dataclasses.dataclass(frozen=True, slots=True)
class ConsumerState:
    """Everything of a consumer; without allocations it does not exist and has no owner.

    ``allocations`` is ``{provider uuid: {resource class: amount}}``.
    """

    allocations: allocation.Allocations = dataclasses.field(default_factory=dict)
    project_id: str | None = None
    user_id: str | None = None
    consumer_type: str | None = None

    @classmethod
    def of(cls, consumer: allocation.Consumer) -> Self:
        """The state of a consumer, in the order of its providers."""
        allocations = {
            uuid: shared.mapping(dict(sorted(resources.items())))
            for uuid, resources in sorted(consumer.allocations.items())
            if resources
        }
        if not allocations:
            return cls()
        return cls(allocations, consumer.project_id, consumer.user_id, consumer.consumer_type)

    def consumer(self, uuid: str, generation: int | None = None) -> allocation.Consumer:
        """The consumer in this state."""
        return allocation.Consumer(
            uuid,
            self.allocations,
            project_id=self.project_id,
            user_id=self.user_id,
            generation=generation,
            consumer_type=self.consumer_type,
        )

    def to_dict(self) -> dict[str, Any]:
        """The form of a plan file."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Read ``to_dict``'s form."""
        return cls(**document)


C = TypeVar("C", bound=ConsumerState)


class ConsumerType(base.ChangeType[C]):
    """What the kinds of change share that write a consumer's allocations."""

    whole = True
    unit = "allocations"

    def removes(self, before: C, after: C) -> int:
        """A consumer has one allocation per provider, regardless of its classes."""
        return max(len(before.allocations) - len(after.allocations), 0)

    def providers(self, state: C) -> Iterable[str]:
        return state.allocations

    def facts(self, before: C, after: C, names: change.Names = base.NO_NAMES) -> list[base.Fact]:
        found = []
        pairs = _pairs(before.allocations) | _pairs(after.allocations)
        for uuid, name in pairs:
            old = before.allocations.get(uuid, {}).get(name)
            new = after.allocations.get(uuid, {}).get(name)
            label = f"{names.get(uuid, uuid)}:{name}"
            found.append(base.Fact(f"{uuid}:{name}", old, new, label, label))
        for field in _OWNER:
            old_owner, new_owner = getattr(before, field), getattr(after, field)
            if old_owner is not None or new_owner is not None:
                found.append(base.Fact(field, old_owner, new_owner, field, field))
        return found


class Allocations(ConsumerType[ConsumerState]):
    """Written under the consumer's generation."""

    name = "allocations"
    state = ConsumerState
    schema = forms.record(**STATE)
    #: One second of work for a server; six more requests find the cause of a refusal.
    bulk_size = 64

    def read(
        self, services: base.Services, subject: change.Subject, after: ConsumerState
    ) -> change.Observed[ConsumerState]:
        return read(services.client, subject.uuid)

    def write(
        self, services: base.Services, write: base.Write[ConsumerState]
    ) -> change.Observed[ConsumerState]:
        return change.Observed(None, replace(services.client, write))

    def assumed(self, before: ConsumerState) -> change.Observed[ConsumerState] | None:
        """A consumer that did not exist; the server refuses to create one that exists."""
        return None if before.allocations else change.Observed(None, ConsumerState())

    def bulk_key(self, before: ConsumerState, after: ConsumerState) -> Hashable:
        return _sets_type(before, after)

    def write_bulk(
        self, services: base.Services, writes: Sequence[base.Write[ConsumerState]]
    ) -> None:
        sender = _sender(services.client, writes[0])
        sender.write_allocations([_renewed(write) for write in writes])


def read(client: api.Client, uuid: str) -> change.Observed[ConsumerState]:
    """Read a consumer. Requests: one GET."""
    client.require_feature("consumer generation", "changing allocations safely")
    return observed(client.show_allocations(uuid))


def replace(client: api.Client, write: base.Write[C]) -> C:
    """Write a consumer. Requests: one PUT."""
    _sender(client, write).replace_allocations(_renewed(write))
    return write.after


def observed(consumer: allocation.Consumer) -> change.Observed[ConsumerState]:
    """A consumer that planning has read."""
    return change.Observed(consumer.generation, ConsumerState.of(consumer))


def planned(
    name: str, before: allocation.Consumer, after: allocation.Consumer, **fields: Any
) -> change.Change:
    """The change from one state of a consumer to another; ``name`` is its display name.

    Its generation is ``before.generation``, None for a consumer that does not exist yet.
    ``fields`` are other fields of Change. A change of type is marked irreversible.
    """
    was, becomes = ConsumerState.of(before), ConsumerState.of(after)
    both = was.allocations and becomes.allocations
    if both and was.consumer_type != becomes.consumer_type:
        fields = {"irreversible": TYPE_STAYS, **fields}
    subject = change.Subject(name, before.uuid)
    return change.Change(TYPE.name, subject, was, becomes, generation=before.generation, **fields)


def _pairs(allocations: allocation.Allocations) -> dict[tuple[str, str], None]:
    """``(provider, resource class)`` pairs, in their order."""
    return dict.fromkeys((uuid, name) for uuid, amounts in allocations.items() for name in amounts)


def _sender(client: api.Client, write: base.Write[C]) -> api.Client:
    """The client at the microversion that can write the consumer."""
    if _sets_type(write.observed.state, write.after):
        client.require_feature("consumer types", "setting a consumer type")
        return client
    return client.at(min(client.microversion, microversion.TYPE_STAYS))


def _sets_type(before: ConsumerState, after: ConsumerState) -> bool:
    """Whether a write must name a consumer type: of a new consumer, or a different one.

    From 1.38 on a write names a type, and ``unknown`` is not accepted; a write at 1.37 keeps
    the stored type, ``unknown`` for a new consumer.
    """
    return after.consumer_type not in {None, allocation.UNKNOWN_TYPE, before.consumer_type}


def _renewed(write: base.Write[C]) -> allocation.Consumer:
    """The consumer after the change; one without allocations keeps its owner in the request."""
    found, after = write.observed, write.after
    owner = {field: getattr(after, field) or getattr(found.state, field) for field in _OWNER}
    consumer = after.consumer(write.subject.uuid, found.generation)
    return dataclasses.replace(consumer, **owner)


TYPE = Allocations()
