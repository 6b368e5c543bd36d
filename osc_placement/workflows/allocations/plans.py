"""What the plans of heal and audit have in common. Pure."""

from __future__ import annotations

from osc_placement.plan import change, plan
from osc_placement.plan.kinds import allocations, bound_ports
from osc_placement.workflows.allocations.ports import Bindings
from osc_placement.workflows.allocations.snapshot import CloudSnapshot


def observed_plan(made: plan.Plan, snapshot: CloudSnapshot) -> plan.ObservedPlan:
    """The plan with the consumers that were read one by one, so that none is read again."""
    known = {
        each.key: allocations.observed(snapshot.consumer(each.subject.uuid))
        for each in made.changes
        if each.kind == change.ALLOCATIONS and each.subject.uuid in snapshot.owners
    }
    return plan.ObservedPlan(made, known)


def with_bindings(
    made: change.Change, snapshot: CloudSnapshot, bindings: Bindings
) -> change.Change:
    """The change of a server's consumer, and of the binding profiles of its ports."""
    if not bindings:
        return made
    ports = [port for port in snapshot.ports[made.subject.uuid] if port.uuid in bindings]
    before = bound_ports.facts({port.uuid: port.allocation for port in ports})
    after = bound_ports.facts(bindings)
    keys = dict.fromkeys([*before, *after])
    return made.replace(
        kind=change.BOUND,
        before={**made.before, **{key: before.get(key) for key in keys}},
        after={**made.after, **{key: after.get(key) for key in keys}},
    )


def provider_names(made: plan.Plan, snapshot: CloudSnapshot) -> dict[str, str]:
    """The names of the providers in a plan."""
    keys = (key for item in made.items() for key in [*item.before, *item.after])
    uuids = {key.partition(":")[0] for key in keys}
    return {uuid: name for uuid, name in snapshot.provider_names.items() if uuid in uuids}
