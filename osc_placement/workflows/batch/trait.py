"""Planning which traits providers have: pure. Called by ``batch``."""

from __future__ import annotations

from collections.abc import Iterable

from osc_placement.engine import standard
from osc_placement.plan import change, guards, plan
from osc_placement.plan.kinds import memberships, trait as trait_kind
from osc_placement.workflows.batch import membership

_OWNED = (
    "compute drivers and nova own standard traits"
    f" (--allow {guards.STANDARD_TRAITS} to do it anyway)"
)
_WRITTEN_BACK = (
    "nova-compute writes the driver's own traits back at its next periodic run,"
    " whatever is set here"
)


def plan_traits(
    observed: Iterable[membership.Observed],
    request: membership.Request,
    create: Iterable[str] = (),
) -> plan.Plan:
    """Traits added to and removed from each provider.

    ``create`` are custom traits that the cloud does not have yet: they come first. A
    standard trait is not removed unless ``request.allow`` says so.
    """
    kept = () if guards.STANDARD_TRAITS in request.allow else standard.traits()
    items = [
        membership.decide(memberships.TRAITS, item, request, kept, _OWNED) for item in observed
    ]
    made = [trait_kind.creation(name, "the cloud does not have it yet") for name in create]
    changed = {
        name
        for item in items
        if isinstance(item, change.Change) and isinstance(item.after, memberships.Traits)
        for name in item.after.present
    }
    notes = (_WRITTEN_BACK,) if changed & standard.traits() else ()
    return plan.make([*made, *items], allow=tuple(sorted(request.allow)), notes=notes)


def plan_replacement(observed: Iterable[membership.Observed], traits: Iterable[str]) -> plan.Plan:
    """Exactly ``traits`` on each provider: all others go, as with ``trait set``; no guard is asked.

    ``has`` of each item tells of every trait that the provider has.
    """
    wanted = tuple(dict.fromkeys(traits))
    items = [
        membership.decide(memberships.TRAITS, item, _instead(item, wanted)) for item in observed
    ]
    return plan.make(items, allow=(guards.STANDARD_TRAITS,))


def _instead(observed: membership.Observed, wanted: tuple[str, ...]) -> membership.Request:
    there = sorted(name for name, has in observed.has.items() if has)
    return membership.Request(wanted, tuple(name for name in there if name not in wanted))
