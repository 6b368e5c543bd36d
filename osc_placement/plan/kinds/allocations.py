# SPDX-License-Identifier: Apache-2.0
"""Changes of a consumer's allocations and owner: a write replaces all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

from osc_placement import errors, microversion
from osc_placement.client import api, api_errors
from osc_placement.model import allocation, shared
from osc_placement.neutron import api as neutron_api
from osc_placement.plan import change, forms
from osc_placement.plan.kinds import base

TYPE_STAYS = "a consumer's type cannot be unset"

_OWNER = ("project_id", "user_id", "consumer_type")


@dataclasses.dataclass(frozen=True, slots=True)
class ConsumerState(forms.JsonObject):
    """Everything of a consumer; without allocations it does not exist and has no owner.

    ``allocations`` is ``{provider uuid: {resource class: amount}}``.
    """

    allocations: forms.Allocations = dataclasses.field(default_factory=dict)
    project_id: str | None = None
    user_id: str | None = None
    consumer_type: str | None = None

    @classmethod
    def of(cls, consumer: allocation.Consumer) -> Self:
        """The state of a consumer, in the order of its providers."""
        allocations = {
            uuid: shared.intern_mapping(dict(sorted(resources.items())))
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

    def consumers(self, subject: change.Subject, state: C) -> Iterable[str]:
        return [subject.uuid]

    def facts(self, before: C, after: C, names: change.Names = base.NO_NAMES) -> list[base.Fact]:
        changed = []
        pairs = _pairs(before.allocations) | _pairs(after.allocations)
        for uuid, name in pairs:
            old = before.allocations.get(uuid, {}).get(name)
            new = after.allocations.get(uuid, {}).get(name)
            label = f"{names.get(uuid, uuid)}:{name}"
            changed.append(base.Fact(f"{uuid}:{name}", old, new, label, label))
        for field in _OWNER:
            old_owner, new_owner = getattr(before, field), getattr(after, field)
            if old_owner is not None or new_owner is not None:
                changed.append(base.Fact(field, old_owner, new_owner, field, field))
        return changed


class Allocations(ConsumerType[ConsumerState]):
    """Written under the consumer's generation."""

    name = "allocations"
    state = ConsumerState
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
) -> change.Change[Any]:
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
    renewed, after = write.observed, write.after
    owner = {field: getattr(after, field) or getattr(renewed.state, field) for field in _OWNER}
    consumer = after.consumer(write.subject.uuid, renewed.generation)
    return dataclasses.replace(consumer, **owner)


TYPE = Allocations()


#: ``{port uuid: {request group: provider uuid}}``
Bindings = Mapping[str, Mapping[str, str]]

_GONE = "its port {uuid} no longer exists"


@dataclasses.dataclass(frozen=True, slots=True)
class BoundState(ConsumerState):
    """A consumer, and every port concerned, with the providers that its profile names."""

    ports: Bindings = dataclasses.field(default_factory=dict)

    @classmethod
    def with_ports(cls, consumer: ConsumerState, ports: Bindings) -> Self:
        """The state of a consumer and of ports."""
        fields = {
            field.name: getattr(consumer, field.name) for field in dataclasses.fields(ConsumerState)
        }
        return cls(**fields, ports={uuid: dict(groups) for uuid, groups in sorted(ports.items())})

    def without_ports(self) -> ConsumerState:
        """The state of the consumer alone."""
        return ConsumerState(self.allocations, self.project_id, self.user_id, self.consumer_type)


class BoundPorts(ConsumerType[BoundState]):
    """Written under the revisions of the ports and the generation of the consumer."""

    name = "bound allocations"
    state = BoundState
    in_parts = True
    needs_neutron = True

    def read(
        self, services: base.Services, subject: change.Subject, after: BoundState
    ) -> change.Observed[BoundState]:
        """Requests: one GET to Placement, and one GET to neutron per port."""
        bound = read(services.client, subject.uuid)
        ports = [_read(_neutron(services), uuid) for uuid in after.ports]
        bindings = {port.uuid: port.allocation for port in ports}
        state = BoundState.with_ports(bound.state, bindings)
        return change.Observed(bound.generation, state, ports)

    def write(
        self, services: base.Services, write: base.Write[BoundState]
    ) -> change.Observed[BoundState]:
        """Write ports, then allocations. Requests: one PUT per changed port, and one PUT."""
        neutron, ports = _neutron(services), write.after.ports
        bound: list[neutron_api.Port] = write.observed.source
        written: list[neutron_api.Port] = []
        before = {port.uuid: port.allocation for port in bound}
        try:
            for port in bound:
                if port.allocation != ports[port.uuid]:
                    written.append(neutron_api.bind(neutron, port, ports[port.uuid]))
            return change.Observed(None, replace(services.client, write))
        except (api_errors.OutcomeUnknown, api_errors.UnexpectedResponse):
            # The write may have been carried out: the engine reads again.
            raise
        except errors.PlacementError as refusal:
            _restore(neutron, written, before, refusal)
            raise

    def in_placement(self, item: change.Change[BoundState]) -> change.Change[Any]:
        """The change of the consumer alone."""
        before, after = (side.without_ports() for side in (item.before, item.after))
        change_of_any: change.Change[Any] = item
        return dataclasses.replace(change_of_any, kind=TYPE.name, before=before, after=after)

    def facts(
        self, before: BoundState, after: BoundState, names: change.Names = base.NO_NAMES
    ) -> list[base.Fact]:
        changed = super().facts(before, after, names)
        for uuid in dict.fromkeys([*before.ports, *after.ports]):
            was, becomes = before.ports.get(uuid, {}), after.ports.get(uuid, {})
            for group in dict.fromkeys([*was, *becomes]):
                label = f"port {uuid}:{group}"
                old, new = was.get(group), becomes.get(group)
                changed.append(base.Fact(label, old, new, label, label))
        return changed


def with_ports(
    planned: change.Change[Any], before: Bindings, after: Bindings
) -> change.Change[Any]:
    """A change of allocations, extended by a change of ports."""

    def extended(state: change.State, ports: Bindings) -> BoundState:
        if not isinstance(state, ConsumerState):
            raise TypeError(state)
        return BoundState.with_ports(state, ports)

    return dataclasses.replace(
        planned,
        kind=BOUND_PORTS.name,
        before=extended(planned.before, before),
        after=extended(planned.after, after),
    )


def _neutron(services: base.Services) -> neutron_api.Neutron:
    if services.neutron is None:
        raise errors.PlacementError("neutron is not available")
    return services.neutron


def _restore(
    neutron: neutron_api.Neutron,
    written: Iterable[neutron_api.Port],
    before: Bindings,
    refusal: errors.PlacementError,
) -> None:
    for port in written:
        try:
            neutron_api.bind(neutron, port, before[port.uuid])
        except errors.PlacementError as error:
            raise api_errors.ApiError(
                0,
                f"Placement refused ({refusal}), and port {port.uuid} could not be restored"
                f" ({error}): its binding profile names a provider without allocation",
            ) from error


def _read(neutron: neutron_api.Neutron, uuid: str) -> neutron_api.Port:
    consumer = neutron_api.port(neutron, uuid)
    if consumer is None:
        raise api_errors.NotFound(404, _GONE.format(uuid=uuid))
    return consumer


BOUND_PORTS = BoundPorts()
