"""What neutron knows of ports that need resources: the values that healing goes by."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from osc_placement.model.candidate import RequestGroup


@dataclasses.dataclass(frozen=True, slots=True)
class Port:
    """A port of a server, and what it asks of the server's host.

    ``groups`` is ``{group id: what one provider must give}``, empty for most ports; below
    neutron's port-resource-request-groups there is one, and its id is the port's.
    ``allocation`` is ``{group id: provider uuid}`` as its binding profile tells it;
    ``profile`` is that profile whole. ``revision`` guards a write, None in an old neutron.
    """

    uuid: str
    name: str
    server_uuid: str
    groups: Mapping[str, RequestGroup] = dataclasses.field(default_factory=dict)
    same_subtree: frozenset[str] = frozenset()
    allocation: Mapping[str, str] = dataclasses.field(default_factory=dict)
    profile: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    revision: int | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it has the one group of the old form, of which the profile tells a text."""
        return list(self.groups) == [self.uuid]

    def bound(self, allocation: Mapping[str, str]) -> dict[str, Any]:
        """The profile with this allocation instead of what it told; none removes it."""
        kept = {key: value for key, value in self.profile.items() if key != ALLOCATION}
        if not allocation:
            return kept
        told = allocation.get(self.uuid) if self.is_plain else dict(allocation)
        return {**kept, ALLOCATION: told}


#: Where a binding profile tells from which providers a port has its resources.
ALLOCATION = "allocation"
