"""Neutron's ports with resource requests, as values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from osc_placement.model.candidate import RequestGroup

#: The key of a binding profile that holds the providers of a port's resources.
ALLOCATION = "allocation"


@dataclasses.dataclass(frozen=True, slots=True)
class Port:
    """A port of a server, and the resources that it requests on the server's host.

    ``groups`` is ``{group id: request group}``, empty for most ports. Without neutron's
    port-resource-request-groups extension there is one group, and its id is the port's UUID.
    ``allocation`` is ``{group id: provider uuid}`` from the binding profile; ``profile`` is
    the whole profile. ``revision`` is the revision number, None in an old neutron.
    ``is_remote_managed``: a SmartNIC manages it (the VNIC type remote-managed).
    """

    uuid: str
    name: str
    server_uuid: str
    groups: Mapping[str, RequestGroup] = dataclasses.field(default_factory=dict)
    same_subtree: frozenset[str] = frozenset()
    allocation: Mapping[str, str] = dataclasses.field(default_factory=dict)
    profile: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    revision: int | None = None
    is_remote_managed: bool = False

    @property
    def has_one_group(self) -> bool:
        """Whether the request has the old form, where the profile holds one provider's UUID."""
        return list(self.groups) == [self.uuid]

    def profile_with(self, allocation: Mapping[str, str]) -> dict[str, Any]:
        """The binding profile with this allocation; without the key when it is empty."""
        profile = {key: value for key, value in self.profile.items() if key != ALLOCATION}
        if not allocation:
            return profile
        value = allocation.get(self.uuid) if self.has_one_group else dict(allocation)
        return {**profile, ALLOCATION: value}
