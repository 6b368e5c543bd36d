# SPDX-License-Identifier: Apache-2.0
"""The options of ``allocation candidate explain`` for a failure that happened, and their rows."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from osc_placement import errors
from osc_placement.client import query as queries
from osc_placement.model.name import counted
from osc_placement.v1.common import arguments, base

if TYPE_CHECKING:
    from osc_placement.scheduling.case import Case
    from osc_placement.workflows.cloud.context import ReadContext
    from osc_placement.workflows.explain import explain, failed, request_log, since


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a request, its logs, and a snapshot of its time."""
    group = parser.add_argument_group("a failure that happened")
    group.add_argument("--request-id", metavar="<id>", help="A request of nova (req-...) in logs")
    text = "A log of nova or Placement with this request, or that in which --server failed."
    arguments.add_repeated(group, "--request-log", "<file>", text, type=pathlib.Path)
    arguments.add_file(group, "--at", "A snapshot: say what changed since", "<snapshot>")


def check(
    command: base.PlacementCommand, parsed_args: argparse.Namespace, *, has_query: bool
) -> None:
    """Exit with a usage error for options that exclude each other."""
    named, logs, move = parsed_args.request_id, parsed_args.request_log, parsed_args.move
    wrong = {
        "--request-id: needs --request-log": named and not logs,
        "--request-log: needs --request-id or --server": logs and not (named or parsed_args.server),
        "--request-log: needs --request-id, as --no-nova reads no failure of --server": logs
        and parsed_args.no_nova
        and not named,
        "--request-id: not allowed with argument --flavor": named and parsed_args.flavor,
        "--request-id: not allowed with options of a query": named and has_query,
        "--request-log: not allowed with argument --for": logs and move,
        "--at: not allowed with argument --for": parsed_args.at and move,
    }
    for text in (text for text, is_so in wrong.items() if is_so):
        command.usage_error(f"argument {text}")


def with_logged(
    requests: Sequence[explain.ExplainedQuery], log: request_log.RequestLog
) -> list[explain.ExplainedQuery]:
    """The queries to explain: those of the logs, if nova's request today is another one."""
    from osc_placement.model import constraint
    from osc_placement.workflows.explain import explain

    present = [dataclasses.replace(single.query, limit=None) for single in requests]
    case = requests[0].case if requests else None
    logged = []
    for pairs in (queries.parse(query.text) for query in log.queries.values()):
        read = queries.read_candidates(pairs)
        if dataclasses.replace(read, limit=None) in present:
            return list(requests)
        order = constraint.constraints_of(read)
        logged.append(explain.ExplainedQuery(read, order, parameters=pairs, case=case))
    return logged or list(requests)


def read_log(
    paths: Sequence[pathlib.Path], request_id: str | None, failure: failed.PastFailure | None
) -> request_log.RequestLog:
    """The request in the logs. Errors: PlacementError, also for a server that did not fail."""
    from osc_placement.workflows.explain import request_log

    if request_id is None and failure is None:
        raise errors.PlacementError(
            "the server is not in ERROR: --request-id names the request of nova to look for"
        )
    if failure and failure.action:
        request_id = request_id or failure.action.request_id
    if request_id is None:
        why = failure.not_checked if failure else ""
        return request_log.RequestLog("", without=[f"which request failed (--request-id): {why}"])
    return request_log.read(paths, request_id)


def attempts(case: Case | None, count: int) -> list[str]:
    """How many of the hosts that can serve the request of a new server nova tries."""
    if case is None or case.way != "boot" or not count:
        return []
    most = case.options.max_attempts
    if 1 in (count, most):
        return ["Nova tries one host: a build that fails there ends in ERROR"]
    return [
        f"Nova tries {min(count, most)} of these hosts if builds fail (max_attempts {most}), and"
        " only hosts in the cell of the first one"
    ]


class FailureRecords(NamedTuple):
    """What happened, by nova, by the logs and by a snapshot; ``then`` are the latter's rows."""

    failure: failed.PastFailure | None = None
    log: request_log.RequestLog | None = None
    cause: failed.Cause | None = None
    then: Sequence[Mapping[str, Any]] = ()

    def completed(
        self, answer: explain.Explanation | None, when: str, then: Sequence[Mapping[str, Any]] = ()
    ) -> FailureRecords:
        """The same with its cause; ``answer`` is about the hosts of a time."""
        from osc_placement.workflows.explain import failed, request_log

        cause = None
        if self.failure or self.log:
            log = self.log or request_log.RequestLog("")
            cause = failed.cause(self.failure, log, answer, when)
        return self._replace(cause=cause, then=then)

    def lines(self) -> Iterator[str]:
        """The lines of the summary that precede the answer about now."""
        if self.failure:
            yield from self.failure.lines()
        if self.cause:
            yield f"Cause{'' if self.cause.kind else ' not known'}: {self.cause.text}"
        if self.log:
            yield from (f"Not in the logs: {text}" for text in self.log.missing)
        begins = {"then": "", "not-checked": "Not checked: "}
        for row in self.then:
            if row["section"] in begins:
                yield begins[row["section"]] + row["text"]

    def facts(self) -> Iterator[Mapping[str, Any]]:
        """The cause, how the server failed, the hosts that were tried, and what the logs have."""
        events, errors_of_builds = self.failure.attempts if self.failure else (), dict[str, str]()
        if self.cause:
            kind = str(self.cause.kind or "unknown")
            yield {"section": "first-cause", "text": self.cause.text, "reason": kind}
        if self.failure:
            request = self.failure.action and self.failure.action.request_id
            row = {"section": "failed", "source": request, "reason": str(self.failure.kind)}
            yield {**row, "text": self.failure.fault.message}
            errors_of_builds = {host: text for text, host in self.failure.build_errors}
        if self.log:
            for name, start, end in self.log.filters:
                text = f"left {end} of {counted(start, 'host')}"
                yield {"section": "logged-filter", "reason": name, "hosts": end, "text": text}
            yield from ({"section": "not-logged", "text": text} for text in self.log.missing)
            errors_of_builds |= {host: text for text, host in self.log.build_errors}
        for event in events:
            text = event.text or errors_of_builds.get(event.host) or "nova shows no text"
            errors_of_builds.pop(event.host, None)
            row = {"section": "attempt", "host": event.host or None, "source": event.started}
            yield {**row, "text": text}
        for host, text in errors_of_builds.items():
            yield {"section": "attempt", "host": host or None, "text": text}
        yield from self.then


def since_snapshot(
    path: pathlib.Path, now: since.CloudOfTime, answer: explain.Explanation, context: ReadContext
) -> tuple[explain.Explanation, str, list[Mapping[str, Any]]]:
    """The answer on the snapshot, its time, and the rows about what changed.

    Requests: those of ``since.changed_hosts``. Errors: PlacementError, which names the file.
    """
    from osc_placement.workflows.cloud import rehearsal
    from osc_placement.workflows.explain import since
    from osc_placement.workflows.snapshot import file

    with file.SnapshotFile(path) as saved:
        metadata = saved.metadata
    if metadata is None:
        raise errors.PlacementError(f"{path} is no snapshot: 'placement snapshot save' makes one")
    finished = datetime.datetime.fromtimestamp(metadata.finished, datetime.UTC)
    time = finished.isoformat(timespec="seconds")
    with rehearsal.opened_file(path) as client:
        then = since.of_snapshot(client, now.every)
        earlier = then.explain(context)
        changed = since.changed_hosts((then, now), (earlier, answer), context)
    names = list(earlier.candidates)
    text = f"On {path}, saved {time}: {len(names)} of {counted(earlier.all_hosts, 'host')} could"
    text += " serve the request; "
    text += f"{counted(len(changed), 'host')} changed since" if changed else "the same as now"
    row = {"section": "then", "text": text, "source": time, "hosts": len(names), "names": names}
    doubts = [f"on {path}: {why}" for why in then.compute.not_checked]
    rows: list[Mapping[str, Any]] = [
        row,
        *({"section": "not-checked", "text": text} for text in doubts),
    ]
    for host, is_lost, why in changed:
        verdict, text = ("only then", f"now: {why}") if is_lost else ("only now", f"then: {why}")
        rows.append({"section": "changed-host", "host": host, "verdict": verdict, "text": text})
    return earlier, time, rows
