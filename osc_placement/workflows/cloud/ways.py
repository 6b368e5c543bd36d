# SPDX-License-Identifier: Apache-2.0
"""By which way servers leave their hosts: what nova-api accepts, and which hosts then. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from osc_placement.model import command_line
from osc_placement.scheduling import verdict
from osc_placement.scheduling.answer import Answer, Verdict
from osc_placement.scheduling.case import Case, Way
from osc_placement.workflows.cloud.host_verdicts import HostVerdicts
from osc_placement.workflows.cloud.servers import PlacedServer

#: The ways off a host that runs, the preferred one first; and off one that does not.
OFF_A_HOST = (Way.LIVE_MIGRATE, Way.MIGRATE)
OFF_A_DEAD_HOST = (Way.EVACUATE,)


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """The first way that nova does not refuse, None if it refuses all; and what it says of each."""

    way: Way | None
    verdicts: Mapping[Way, Verdict]

    @property
    def refused(self) -> tuple[str, ...]:
        """Why nova refuses the ways that come before the one that is left."""
        texts = (text for answer in self.verdicts.values() for text in answer.refused)
        return tuple(dict.fromkeys(texts))

    @property
    def unknown(self) -> tuple[str, ...]:
        """The facts that decide about the way, and are not known."""
        return self.verdicts[self.way].unknown if self.way else ()


def choose(case: Case, ways: Sequence[Way], *, source_fails: bool = False) -> Choice:
    """The first way of a server among some that nova does not refuse for certain."""
    verdicts = {
        way: verdict.refusal(dataclasses.replace(case, way=way, source_fails=source_fails))
        for way in ways
    }
    left = (way for way, answer in verdicts.items() if answer.answer is not Answer.NO)
    return Choice(next(left, None), verdicts)


def ways_off(case: Case) -> Sequence[Way]:
    """The ways off the host of a server: it is dead if its nova-compute is not up."""
    return OFF_A_HOST if case.compute.runs(case.source) else OFF_A_DEAD_HOST


@dataclasses.dataclass(frozen=True, slots=True)
class Leaving:
    """Servers with their ways.

    ``moving`` are those that nova moves. ``held`` is ``{server key: why}`` for those that it does
    not, ``doubtful`` is ``{server key: facts that are not known}`` for some of ``moving``;
    ``cold`` is ``{server key: why it does not move live}`` for those that only a cold move takes.
    """

    moving: Sequence[PlacedServer] = ()
    held: Mapping[str, str] = dataclasses.field(default_factory=dict)
    doubtful: Mapping[str, str] = dataclasses.field(default_factory=dict)
    cold: Mapping[str, str] = dataclasses.field(default_factory=dict)


def leaving(
    placed: Iterable[PlacedServer],
    cases: Mapping[str, Case],
    hosts: HostVerdicts,
    ways: Sequence[Way] | None = None,
    *,
    source_fails: bool = False,
    only_cold: Collection[str] = (),
) -> Leaving:
    """The way of each server, and what the filters say about its targets.

    ``ways`` are those of ``ways_off`` without a choice; the servers ``only_cold`` (UUIDs) leave
    cold. A server without a case has no way.
    """
    moving: list[PlacedServer] = []
    refused: dict[str, str] = {}
    doubtful: dict[str, str] = {}
    cold: dict[str, str] = {}
    for server in placed:
        case = cases.get(server.uuid)
        if case is None:
            moving.append(server)
            continue
        possible = (Way.MIGRATE,) if server.uuid in only_cold else ways or ways_off(case)
        choice = choose(case, possible, source_fails=source_fails)
        if choice.way is None:
            refused[server.key] = "; ".join(choice.refused)
            continue
        if choice.unknown:
            doubtful[server.key] = "; ".join(choice.unknown)
        if choice.way is Way.MIGRATE and case.server and case.server.vm_state != "stopped":
            cold[server.key] = "; ".join(choice.refused)
        answers = hosts.of(dataclasses.replace(case, way=choice.way))
        by_cold = choice.verdicts.get(Way.MIGRATE)
        if answers.only_live and by_cold and by_cold.answer is Answer.NO:
            answers = dataclasses.replace(answers, only_live=frozenset())
        moving.append(dataclasses.replace(server, way=choice.way, answers=answers))
    return Leaving(moving, refused, doubtful, cold)


def command(server: str, way: Way) -> str:
    """The command that moves a server."""
    if way is Way.LIVE_MIGRATE:
        return command_line.line("server migrate", server, options=[("--live-migration", None)])
    return command_line.line(f"server {way}", server)
