"""What the plans of heal and audit have in common. Pure."""

from __future__ import annotations

from osc_placement.plan import change, plan
from osc_placement.plan.kinds import allocations, bound_ports, registry
from osc_placement.workflows.allocations.ports import Bindings
from osc_placement.workflows.allocations.snapshot import CloudSnapshot


def observed_plan(planned: plan.Plan, snapshot: CloudSnapshot) -> plan.ObservedPlan:
    """The plan with the consumers that were read one by one, so that none is read again."""
    known = {
        change.key(allocations.TYPE.name, each.subject): allocations.observed(
            snapshot.consumer(each.subject.uuid)
        )
        for each in planned.changes
        if each.subject.uuid in snapshot.owners
    }
    return plan.ObservedPlan(planned, known)


def with_bindings(
    planned: change.Change, snapshot: CloudSnapshot, bindings: Bindings
) -> change.Change:
    """The change of a server's consumer, and of the binding profiles of its ports."""
    if not bindings:
        return planned
    ports = [port for port in snapshot.ports[planned.subject.uuid] if port.uuid in bindings]
    before = {port.uuid: port.allocation for port in ports}
    return bound_ports.with_ports(planned, before, bindings)


def provider_names(planned: plan.Plan, snapshot: CloudSnapshot) -> dict[str, str]:
    """The names of the providers in a plan."""
    uuids = {
        uuid
        for item in planned.items()
        for state in (item.before, item.after)
        if state is not None
        for uuid in registry.CHANGE_TYPES[item.kind].providers(state)
    }
    return {uuid: name for uuid, name in snapshot.provider_names.items() if uuid in uuids}
