"""Which servers a run is about; ``observe`` reads no more than that needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from osc_placement import errors
from osc_placement.model import name
from osc_placement.nova import api, values


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """Hosts by nova's names, servers by UUID; None does not narrow, both narrow each other."""

    hosts: frozenset[str] | None = None
    servers: frozenset[str] | None = None

    @property
    def is_narrow(self) -> bool:
        """Whether some servers are out of it."""
        return self.hosts is not None or self.servers is not None

    def concerns(self, server: values.Server) -> bool:
        """Whether a server is within it."""
        if self.servers is not None and server.uuid not in self.servers:
            return False
        return self.hosts is None or server.host in self.hosts


EVERYTHING = Scope()


def of_words(
    asked: api.Nova,
    *,
    hosts: Sequence[str] = (),
    host_aggregates: Sequence[str] = (),
    servers: Sequence[str] = (),
) -> Scope:
    """The scope in an operator's words: hosts, names or ids of host aggregates, server UUIDs.

    Cost: one request where host aggregates are given. Errors: InvalidInput with every fault.
    """
    faults = errors.InputErrors(
        f"{text!r} is no UUID of a server" for text in servers if not name.is_uuid(text)
    )
    known = api.host_aggregates(asked) if host_aggregates else []
    members = {host for text in host_aggregates for host in _members(known, text, faults)}
    faults.check()
    within = frozenset(members) if host_aggregates else frozenset(hosts)
    return Scope(
        hosts=(within & frozenset(hosts or within)) if hosts or host_aggregates else None,
        servers=frozenset(map(name.canonical_uuid, servers)) if servers else None,
    )


def _members(
    known: Sequence[values.HostAggregate], text: str, faults: errors.InputErrors
) -> Sequence[str]:
    found = [item for item in known if text in {item.name, item.id, item.uuid}]
    if len(found) != 1:
        count = f"{len(found)} host aggregates have" if found else "no host aggregate has"
        faults.add(f"{count} the name or id {text!r}")
        return ()
    return found[0].hosts
