# SPDX-License-Identifier: Apache-2.0
"""What went wrong when nova started a server that is in ERROR. ``observe`` sends requests.

Two failures look alike: the scheduler found no host, or it found some and each build failed. Only
for the first one the present answer about hosts says something.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator

from osc_placement import errors
from osc_placement.nova import api, servers, values


class FailureKind(enum.StrEnum):
    """Which part of nova failed."""

    NO_HOST = "no-host"
    BUILDS = "builds"
    OTHER = "other"


#: How nova's messages begin; clients read them.
_BEGINNINGS = {
    "No valid host was found": FailureKind.NO_HOST,
    "Exceeded maximum number of retries": FailureKind.BUILDS,
    "Exhausted all hosts available": FailureKind.BUILDS,
}


@dataclasses.dataclass(frozen=True, slots=True)
class PastFailure:
    """The failure of a server: nova's message, and the hosts that were tried.

    ``attempts`` are the events of nova-compute that failed, the first one first. ``not_checked``
    says why they are not known.
    """

    server: values.Server
    fault: values.Fault
    action: values.ServerAction | None = None
    attempts: tuple[values.ActionEvent, ...] = ()
    not_checked: str = ""

    @property
    def kind(self) -> FailureKind:
        """Which part failed, by nova's message."""
        found = (kind for text, kind in _BEGINNINGS.items() if text in self.fault.message)
        return next(found, FailureKind.OTHER)

    @property
    def hosts(self) -> list[str]:
        """The hosts that were tried, as far as nova shows them."""
        return list(dict.fromkeys(event.host for event in self.attempts if event.host))

    def lines(self) -> Iterator[str]:
        """What happened, and what to look at."""
        what = f"{self.server.name or self.server.uuid} failed at {self.fault.created}"
        during = f" in {self.action.name} ({self.action.request_id})" if self.action else ""
        where = f" on {', '.join(self.hosts)}" if self.hosts else ""
        if self.kind is FailureKind.NO_HOST:
            yield f"{what}{during}: the scheduler found no host; this answer is about now"
        elif self.kind is FailureKind.BUILDS:
            yield (
                f"{what}{during}: the scheduler found hosts, and each build failed{where}. The"
                " number of hosts now does not explain it"
            )
        else:
            yield f"{what}{during}{where}: {self.fault.message}"
        if self.kind is not FailureKind.NO_HOST:
            request = f" with {self.action.request_id}" if self.action else ""
            yield f"Next: the log of nova-compute{where}{request} has the cause"
        if self.not_checked:
            yield f"Not checked: which hosts were tried: {self.not_checked}"


def observe(nova: api.Nova, server: values.Server) -> PastFailure | None:
    """The failure of a server that is in ERROR; None for any other server.

    Requests: none for another server; one for its actions, and one for the events of the newest.
    """
    if server.fault is None or server.status != "ERROR":
        return None
    failure = PastFailure(server, server.fault)
    try:
        actions = servers.actions(nova, server.uuid)
        if not actions:
            return dataclasses.replace(failure, not_checked="nova has no actions of the server")
        action = max(actions, key=lambda item: item.started)
        events = servers.events(nova, server.uuid, action.request_id)
    except errors.PlacementError as error:
        return dataclasses.replace(failure, not_checked=str(error))
    failed = sorted((event for event in events if event.failed), key=lambda event: event.started)
    return dataclasses.replace(
        failure, action=action, attempts=tuple(event for event in failed if event.is_of_compute)
    )
