"""What planning traits and planning aggregates have in common: being there, or not.

Pure; ``trait`` and ``aggregate`` add their own guards and notes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from osc_placement.model import provider
from osc_placement.plan import change
from osc_placement.plan.kinds import memberships


@dataclasses.dataclass(frozen=True, slots=True)
class Observed:
    """One provider, and which of the names in question it has: ``{name: whether}``."""

    provider: provider.Provider
    generation: int
    has: Mapping[str, bool]


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """Names that shall be there, and names that shall not."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    allow: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """All names that the request speaks of, in the order given."""
        return tuple(dict.fromkeys((*self.add, *self.remove)))


def decide(
    kind: memberships.MembershipType[memberships.M],
    observed: Observed,
    request: Request,
    kept: Collection[str] = (),
    why: str = "",
) -> change.Change | change.Skipped:
    """The change of one provider; if a name in ``kept`` would go, it is left alone for ``why``."""
    subject = change.Subject(observed.provider.name, observed.provider.uuid)
    wanted = dict.fromkeys(request.add, True) | dict.fromkeys(request.remove, False)
    after = {name: wanted[name] for name in request.names}
    before = {name: observed.has.get(name, False) for name in after}
    if before == after:
        state = kind.state(after)
        return change.Skipped(kind.name, subject, state, state, unchanged=True)
    differing = [name for name in after if before[name] != after[name]]
    old = kind.state({name: before[name] for name in differing})
    new = kind.state({name: after[name] for name in differing})
    refused = [name for name in differing if not after[name] and name in kept]
    if refused:
        reason = f"{', '.join(refused)}: {why}"
        return change.Skipped(kind.name, subject, old, new, reason, refused=True)
    return change.Change(kind.name, subject, old, new, observed.generation)
