"""Planning the traits and aggregates of providers. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping

from osc_placement.engine import standard
from osc_placement.model import provider
from osc_placement.plan import change, guards, plan
from osc_placement.plan.kinds import memberships, trait as trait_kind
from osc_placement.plan.reasons import Code

_OWNED = (
    "compute drivers and nova own standard traits"
    f" (--allow {guards.STANDARD_TRAITS} to do it anyway)"
)
_WRITTEN_BACK = (
    "nova-compute overwrites changes of the driver's own traits at its next periodic run"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Observed:
    """A provider, and which traits or aggregates it has: ``{name: whether}``."""

    provider: provider.Provider
    generation: int
    has: Mapping[str, bool]


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """Traits or aggregates (UUIDs) to add and to remove; ``allow`` holds disabled guards."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    allow: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the request, in the order given."""
        return tuple(dict.fromkeys((*self.add, *self.remove)))


def plan_aggregates(observed: Iterable[Observed], request: Request) -> plan.Plan:
    """Add and remove aggregates of each provider."""
    return plan.make(decide(memberships.AGGREGATES, item, request) for item in observed)


def plan_traits(
    observed: Iterable[Observed], request: Request, create: Iterable[str] = ()
) -> plan.Plan:
    """Add and remove traits of each provider.

    The custom traits ``create`` are created first. Removing a standard trait needs the guard
    in ``request.allow``.
    """
    kept = () if guards.STANDARD_TRAITS in request.allow else standard.traits()
    items = [decide(memberships.TRAITS, item, request, kept, _OWNED) for item in observed]
    created = [trait_kind.creation(name, "the cloud does not have it yet") for name in create]
    changed = {
        name
        for item in items
        if isinstance(item, change.Change) and isinstance(item.after, memberships.Traits)
        for name in item.after.present
    }
    notes = (_WRITTEN_BACK,) if changed & standard.traits() else ()
    return plan.make([*created, *items], allow=tuple(sorted(request.allow)), notes=notes)


def plan_replacement(observed: Iterable[Observed], traits: Iterable[str]) -> plan.Plan:
    """Replace the traits of each provider by ``traits``. No guard applies.

    ``has`` of each item must have every trait of the provider.
    """
    names = tuple(dict.fromkeys(traits))
    items = [decide(memberships.TRAITS, item, _replacement(item, names)) for item in observed]
    return plan.make(items, allow=(guards.STANDARD_TRAITS,))


def _replacement(observed: Observed, names: tuple[str, ...]) -> Request:
    current = sorted(name for name, has in observed.has.items() if has)
    return Request(names, tuple(name for name in current if name not in names))


def decide(
    kind: memberships.MembershipType[memberships.M],
    observed: Observed,
    request: Request,
    kept: Collection[str] = (),
    reason: str = "",
) -> change.Change | change.Skipped:
    """The change of one provider; skipped for ``reason`` if it would remove a name of ``kept``."""
    subject = change.Subject(observed.provider.name, observed.provider.uuid)
    requested = dict.fromkeys(request.add, True) | dict.fromkeys(request.remove, False)
    after = {name: requested[name] for name in request.names}
    before = {name: observed.has.get(name, False) for name in after}
    if before == after:
        state = kind.state(after)
        return change.Skipped(kind.name, subject, state, state, unchanged=True)
    differing = [name for name in after if before[name] != after[name]]
    old = kind.state({name: before[name] for name in differing})
    new = kind.state({name: after[name] for name in differing})
    refused = [name for name in differing if not after[name] and name in kept]
    if refused:
        text = f"{', '.join(refused)}: {reason}"
        return change.Skipped(
            kind.name, subject, old, new, text, Code.STANDARD_TRAITS, refused=True
        )
    return change.Change(kind.name, subject, old, new, observed.generation)
