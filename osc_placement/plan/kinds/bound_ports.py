"""Changes of a consumer's allocations together with its ports' binding profiles.

Neutron is written first, as nova does it: a port's provider is easily changed back,
allocations are not easily removed. When Placement refuses, the ports are restored. A kill
between the two leaves ports that name providers without allocations; a new plan allocates
from the providers that the ports name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Self

from osc_placement import errors
from osc_placement.client import api_errors
from osc_placement.neutron import api as neutron_api
from osc_placement.plan import change
from osc_placement.plan.kinds import allocations, base, forms

#: ``{port uuid: {request group: provider uuid}}``
Bindings = Mapping[str, Mapping[str, str]]

_GONE = "its port {uuid} no longer exists"


@dataclasses.dataclass(frozen=True, slots=True)
class BoundState(allocations.ConsumerState):
    """A consumer, and every port concerned, with the providers that its profile names."""

    ports: Bindings = dataclasses.field(default_factory=dict)

    @classmethod
    def with_ports(cls, consumer: allocations.ConsumerState, ports: Bindings) -> Self:
        """The state of a consumer and of ports."""
        fields = {
            field.name: getattr(consumer, field.name)
            for field in dataclasses.fields(allocations.ConsumerState)
        }
        return cls(**fields, ports={uuid: dict(groups) for uuid, groups in sorted(ports.items())})

    def without_ports(self) -> allocations.ConsumerState:
        """The state of the consumer alone."""
        return allocations.ConsumerState(
            self.allocations, self.project_id, self.user_id, self.consumer_type
        )


class BoundPorts(allocations.ConsumerType[BoundState]):
    """Written under the revisions of the ports and the generation of the consumer."""

    name = "bound allocations"
    state = BoundState
    schema = forms.record(**allocations.STATE, ports=forms.mapping(forms.mapping(forms.TEXT)))
    in_parts = True
    needs_neutron = True

    def read(
        self, services: base.Services, subject: change.Subject, after: BoundState
    ) -> change.Observed[BoundState]:
        """Requests: one GET to Placement, and one GET to neutron per port."""
        found = allocations.read(services.client, subject.uuid)
        ports = [_read(_neutron(services), uuid) for uuid in after.ports]
        bindings = {port.uuid: port.allocation for port in ports}
        state = BoundState.with_ports(found.state, bindings)
        return change.Observed(found.generation, state, ports)

    def write(
        self, services: base.Services, write: base.Write[BoundState]
    ) -> change.Observed[BoundState]:
        """Write ports, then allocations. Requests: one PUT per changed port, and one PUT."""
        neutron, ports = _neutron(services), write.after.ports
        found: list[neutron_api.Port] = write.observed.source
        written: list[neutron_api.Port] = []
        before = {port.uuid: port.allocation for port in found}
        try:
            for port in found:
                if port.allocation != ports[port.uuid]:
                    written.append(neutron_api.bind(neutron, port, ports[port.uuid]))
            return change.Observed(None, allocations.replace(services.client, write))
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
        return dataclasses.replace(
            change_of_any, kind=allocations.TYPE.name, before=before, after=after
        )

    def facts(
        self, before: BoundState, after: BoundState, names: change.Names = base.NO_NAMES
    ) -> list[base.Fact]:
        found = super().facts(before, after, names)
        for uuid in dict.fromkeys([*before.ports, *after.ports]):
            was, becomes = before.ports.get(uuid, {}), after.ports.get(uuid, {})
            for group in dict.fromkeys([*was, *becomes]):
                label = f"port {uuid}:{group}"
                old, new = was.get(group), becomes.get(group)
                found.append(base.Fact(label, old, new, label, label))
        return found


def with_ports(planned: change.Change, before: Bindings, after: Bindings) -> change.Change:
    """A change of allocations, extended by a change of ports."""

    def extended(state: change.State, ports: Bindings) -> BoundState:
        if not isinstance(state, allocations.ConsumerState):
            raise TypeError(state)
        return BoundState.with_ports(state, ports)

    return dataclasses.replace(
        planned,
        kind=TYPE.name,
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
    found = neutron_api.port(neutron, uuid)
    if found is None:
        raise api_errors.NotFound(404, _GONE.format(uuid=uuid))
    return found


TYPE = BoundPorts()
