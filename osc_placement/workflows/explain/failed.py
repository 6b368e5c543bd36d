# SPDX-License-Identifier: Apache-2.0
"""What went wrong when nova started a server that is in ERROR. ``observe`` sends requests.

Two failures look alike: the scheduler found no host, or it found some and each build failed. Only
for the first one the present answer about hosts says something.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from osc_placement import errors
from osc_placement.model.name import counted
from osc_placement.nova import api, servers, values
from osc_placement.workflows.explain.explain import Explanation
from osc_placement.workflows.explain.request_log import BuildError, FilterStep, RequestLog


class FailureKind(enum.StrEnum):
    """Which part of nova failed."""

    NO_CANDIDATES = "no-candidates"
    NO_HOST = "no-host"
    BUILDS = "builds"
    ABORTED = "aborted"
    OTHER = "other"


#: How nova's messages begin. Without a reason, Placement had no candidate.
_MESSAGES = {
    r"No valid host was found\.?\s*$": FailureKind.NO_CANDIDATES,
    "No valid host was found": FailureKind.NO_HOST,
    "(?s).*(Exceeded maximum number of retries|Exhausted all hosts)": FailureKind.BUILDS,
    r"Build of instance \S+ aborted": FailureKind.ABORTED,
}

#: What happened, by kind.
_TEXTS = {
    FailureKind.NO_CANDIDATES: (
        "the scheduler found no host, because Placement had no candidate; this answer is about now"
    ),
    FailureKind.NO_HOST: "the scheduler found no host; this answer is about now",
    FailureKind.BUILDS: (
        "the scheduler found hosts, and each build failed{where}. The number of hosts now does not"
        " explain it"
    ),
    FailureKind.ABORTED: "the scheduler found hosts, and nova-compute gave up the build{where}",
    FailureKind.OTHER: "{message}",
}

#: The event of a build. Nova writes an error into it only if it does not try another host.
_BUILD = "compute__do_build_and_run_instance"


@dataclasses.dataclass(frozen=True, slots=True)
class PastFailure:
    """The failure of a server: nova's message, and the hosts that were tried.

    ``attempts`` are the builds of nova-compute, and its other steps that failed, the first one
    first. ``not_checked`` says why they are not known.
    """

    server: values.Server
    fault: values.Fault
    action: values.ServerAction | None = None
    attempts: tuple[values.ActionEvent, ...] = ()
    not_checked: str = ""

    @property
    def kind(self) -> FailureKind:
        """Which part failed, by nova's message."""
        kinds = (kind for text, kind in _MESSAGES.items() if re.match(text, self.fault.message))
        return next(kinds, FailureKind.OTHER)

    @property
    def build_errors(self) -> list[BuildError]:
        """Why builds failed, as far as nova shows it: each host's text, or that of the last one."""
        shown = [BuildError(event.text, event.host) for event in self.attempts if event.text]
        last = re.search(r"(?: aborted|Last exception): (.+)", self.fault.message)
        host = self.attempts[-1].host if self.attempts else ""
        return shown or ([BuildError(last[1], host)] if last else [])

    def lines(self) -> Iterator[str]:
        """What happened, and what to look at."""
        hosts = dict.fromkeys(event.host for event in self.attempts if event.host)
        where = f" on {', '.join(hosts)}" if hosts else ""
        during = f" in {self.action.name} ({self.action.request_id})" if self.action else ""
        text = _TEXTS[self.kind].format(where=where, message=self.fault.message)
        name = self.server.name or self.server.uuid
        yield f"{name} failed at {self.fault.created}{during}: {text}"
        if hosts or self.kind in (FailureKind.BUILDS, FailureKind.ABORTED):
            request = f" with {self.action.request_id}" if self.action else ""
            yield f"Next: the log of nova-compute{where}{request} has the cause"
        if self.not_checked and self.kind not in (FailureKind.NO_CANDIDATES, FailureKind.NO_HOST):
            yield f"Not checked: which hosts were tried: {self.not_checked}"


class Cause(NamedTuple):
    """The first cause of a failure; ``kind`` is None if it is not known, and ``text`` says why."""

    kind: FailureKind | None
    text: str


def cause(
    failure: PastFailure | None, log: RequestLog, answer: Explanation | None, when: str
) -> Cause:
    """The cause by nova's message, the logs, and the answer about the hosts of a time."""
    builds = list(log.build_errors) or (failure.build_errors if failure else [])
    kind = failure.kind if failure else _kind_of(log)
    if kind in (FailureKind.BUILDS, FailureKind.ABORTED):
        text = "nova shows no error of the builds; the log of nova-conductor has them"
        return Cause(kind, _joined(builds)) if builds else Cause(None, f"{text} (--request-log)")
    if kind is FailureKind.NO_HOST:
        return _of_filters(log.filters)
    if kind is FailureKind.NO_CANDIDATES:
        return _of_candidates(answer, when)
    text = "the logs have no failure of the request; see that of nova-scheduler"
    return Cause(kind, failure.fault.message if failure else text)


def _kind_of(log: RequestLog) -> FailureKind | None:
    """Which part failed, by the logs alone."""
    if log.filters and not log.filters[-1].end:
        return FailureKind.NO_HOST
    if log.has_no_candidates:
        return FailureKind.NO_CANDIDATES
    return FailureKind.BUILDS if log.build_errors else None


def _joined(builds: Iterable[BuildError]) -> str:
    """Each error once, with its hosts."""
    hosts: dict[str, list[str]] = {}
    for text, host in builds:
        hosts.setdefault(text, []).extend([host] if host else [])
    on = {text: f" (on {', '.join(names)})" if names else "" for text, names in hosts.items()}
    return "; ".join(f"{text}{where}" for text, where in on.items())


def _of_filters(steps: Sequence[FilterStep]) -> Cause:
    if not steps:
        text = "the log of nova-scheduler names the filter that refused the last hosts"
        return Cause(None, f"{text} (--request-log)")
    *earlier, last = steps
    if last.end:
        return Cause(None, "the filters accepted hosts: another server may have taken their room")
    before = [f"{name} refused {start - end}" for name, start, end in earlier if end < start]
    text = f"{last.name} refused the last {counted(last.start, 'host')}"
    return Cause(FailureKind.NO_HOST, f"{text}, after {' and '.join(before)}" if before else text)


def _of_candidates(answer: Explanation | None, when: str) -> Cause:
    kind = FailureKind.NO_CANDIDATES
    if answer is None:
        return Cause(None, "the query that nova sent is not known")
    if answer.cause:
        return Cause(kind, f"Placement refuses the request: {answer.cause} ({when})")
    if answer.causes:
        return Cause(kind, f"no host has room with {' or '.join(answer.causes)} ({when})")
    for step in answer.funnel:
        if not step.hosts:
            return Cause(kind, f"no host is left after {step.constraint} ({when})")
    text = f"Placement has hosts for the request ({when}): the cloud was another one then"
    return Cause(None, f"{text}; a snapshot of that time shows it (--at)")


def observe(nova: api.Nova, server: values.Server) -> PastFailure | None:
    """The failure of a server that is in ERROR; None for any other server.

    Requests: none for another server; one for its actions, and one for the events of the newest
    that had begun when it failed.
    """
    if server.fault is None or server.status != "ERROR":
        return None
    failure = PastFailure(server, server.fault)
    try:
        actions = servers.actions(nova, server.uuid)
        if not actions:
            return dataclasses.replace(failure, not_checked="nova has no actions of the server")
        # Times of nova without its zone and fractions.
        created = server.fault.created[:19]
        begun = [item for item in actions if item.started[:19] <= created]
        action = max(begun or actions, key=lambda item: item.started)
        events = servers.events(nova, server.uuid, action.request_id)
    except errors.PlacementError as error:
        return dataclasses.replace(failure, not_checked=str(error))
    tried = [one for one in events if one.name == _BUILD or (one.is_of_compute and one.failed)]
    in_order = sorted(tried, key=lambda event: event.started)
    return dataclasses.replace(failure, action=action, attempts=tuple(in_order))
