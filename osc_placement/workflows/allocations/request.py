"""What to heal and how; the audit makes one of these for servers without allocations."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from osc_placement.model import allocation
from osc_placement.workflows.allocations import scope as scopes

PACK, SPREAD = "pack", "spread"
STRATEGIES = (PACK, SPREAD)


@dataclasses.dataclass(frozen=True, slots=True)
class HealOptions:
    """The operator's choice among several possible providers.

    ``assigned``: ``{server uuid: names or UUIDs of providers}``. ``strategy`` is for servers
    that are not assigned: ``pack`` takes the fullest providers, ``spread`` the emptiest.
    Both assume that an image has no properties that nova does not report.
    """

    strategy: str | None = None
    assigned: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class HealRequest:
    """Which servers to heal and how.

    ``consumer_type`` is for new consumers, None below 1.38. ``bind``: write the providers of
    ports to their binding profiles. ``check_owners``: read every consumer for its owner.
    """

    scope: scopes.Scope = scopes.WHOLE_CLOUD
    consumer_type: str | None = allocation.INSTANCE
    options: HealOptions = dataclasses.field(default_factory=HealOptions)
    bind: bool = True
    check_owners: bool = False
