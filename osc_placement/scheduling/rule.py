# SPDX-License-Identifier: Apache-2.0
"""A rule of nova: when it holds, and why it refuses a case. Pure."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable

from osc_placement.nova import values
from osc_placement.scheduling import traits
from osc_placement.scheduling.answer import NotKnown, Verdict
from osc_placement.scheduling.case import SCHEDULED, Case, Way


class Stage(enum.StrEnum):
    """Who refuses: before nova asks its scheduler, in the query, among the hosts, at the end."""

    API = "nova-api"
    QUERY = "query to Placement"
    FILTER = "scheduler filter"
    TARGET = "target"


_NOT_READ = "the compute nodes of the hosts were not read"


@dataclasses.dataclass(frozen=True, slots=True)
class Host:
    """A compute host: its root provider and node, its aggregates, and its number of servers.

    ``listed`` are its aggregates, None if nova's hosts were not read. ``servers`` is None if nova
    does not show the number.
    """

    uuid: str = ""
    name: str = ""
    node: values.ComputeNode | None = None
    listed: tuple[values.HostAggregate, ...] | None = ()
    servers: int | None = None

    @property
    def aggregates(self) -> tuple[values.HostAggregate, ...]:
        """Its host aggregates. Errors: NotKnown."""
        if self.listed is None:
            raise NotKnown(_NOT_READ)
        return self.listed

    @property
    def known_name(self) -> str:
        """Nova's name of the host. Errors: NotKnown."""
        if self.listed is None:
            raise NotKnown(_NOT_READ)
        return self.name

    @property
    def profile(self) -> object:
        """Equal for hosts with the same aggregates and hypervisor."""
        node = self.node
        of_node = (node.hypervisor, node.architecture) if node else None
        uuids = None if self.listed is None else tuple(aggregate.uuid for aggregate in self.listed)
        return uuids, of_node

    def metadata(self, key: str) -> set[str]:
        """The values of a key in all aggregates, split at commas. Errors: NotKnown."""
        return {
            part.strip()
            for aggregate in self.aggregates
            if key in aggregate.metadata
            for part in aggregate.metadata[key].split(",")
        }


#: Why a release of nova refuses a case on a host; empty if it accepts. Raises NotKnown.
Check = Callable[[Case, Host, int], str]


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """A rule of nova from the release ``since`` to ``until``, for some ways.

    ``name`` is nova's: of a filter, or of the error of its API. The docstring of ``check`` says
    what is refused. ``is_always``: nova-compute checks the same when it claims, so that no
    nova.conf switches it off. ``by_host``: it compares more than the aggregates and the hypervisor
    of a host.
    """

    name: str
    stage: Stage
    check: Check
    ways: frozenset[Way] = SCHEDULED
    since: int = traits.RELEASES[0]
    until: int = traits.RELEASES[-1]
    is_always: bool = False
    by_host: bool = False

    def verdict(self, case: Case, host: Host) -> Verdict:
        """What the rule says in the releases that this nova may be."""
        if case.way not in self.ways:
            return Verdict()
        refusals: list[str] = []
        unknown: list[str] = []
        for release in case.releases:
            if not self.since <= release <= self.until:
                refusals.append("")
                continue
            try:
                refusals.append(self.check(case, host, release))
            except NotKnown as fact:
                unknown.append(str(fact))
        why = next(filter(None, refusals), "")
        if why and all(refusals) and not unknown:
            return Verdict((why,))
        if why:
            titles = " and ".join(f"nova {release}" for release in case.releases)
            unknown.append(f"{titles} differ, and nova does not show which one it is")
        return Verdict(unknown=tuple(dict.fromkeys(unknown)))
