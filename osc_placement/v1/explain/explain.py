# SPDX-License-Identifier: Apache-2.0
"""``allocation candidate explain``: its options and its tables."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from osc_placement import errors
from osc_placement.client.query import candidate_pairs, encode, read_candidates
from osc_placement.model.name import and_more, counted
from osc_placement.v1.common import arguments, base, nova_request, services
from osc_placement.v1.explain import past
from osc_placement.v1.output import rows, tables
from osc_placement.v1.resources import candidate

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.model.candidate import CandidateQuery
    from osc_placement.nova.api import Nova
    from osc_placement.nova.values import HostAggregate
    from osc_placement.scheduling import request, verdict
    from osc_placement.scheduling.answer import Caveats
    from osc_placement.scheduling.server_hosts import ServerHosts
    from osc_placement.workflows.cloud.cases import MoveRequest
    from osc_placement.workflows.cloud.nova_request import RequestOptions
    from osc_placement.workflows.explain import (
        changes,
        commands,
        explain,
        failures,
        holders,
    )


COLUMNS = (
    *("section", "text", "source", "hosts", "host", "provider", "consumer", "group", "reason"),
    *("names", "requested", "free", "inventory", "details", "verdict", "commands"),
)

#: The values of --for, each a ``case.Way``.
_MOVES = ("live-migrate", "migrate", "resize", "evacuate", "unshelve")

#: ``(title, section, {column of the table: column of the rows})``
_TABLES: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    (
        "Constraints",
        "constraint",
        {"constraint": "text", "source": "source", "hosts left": "hosts"},
    ),
    (
        "Failed constraints",
        "failure",
        {"name": "host", "provider": "provider", "group": "group", "reason": "text"},
    ),
    (
        "Who holds the room",
        "holder",
        {
            "name": "host",
            "provider": "provider",
            "consumer": "consumer",
            "holds": "text",
            "server": "source",
            "nova": "reason",
        },
    ),
    ("Hosts that were tried", "attempt", {"host": "host", "at": "source", "error": "text"}),
    ("Filters in the logs", "logged-filter", {"filter": "reason", "hosts left": "hosts"}),
    ("Hosts that changed", "changed-host", {"host": "host", "serves": "verdict", "why": "text"}),
    ("Smallest changes", "change", {"change": "text", "hosts": "hosts"}),
    (
        "Filters of nova's scheduler",
        "nova-filter",
        {"filter": "reason", "verdict": "verdict", "evidence": "text"},
    ),
)


class ExplainRequest(NamedTuple):
    """What the operator asks, before anything is read from the cloud.

    ``asked`` are the options of a query, or the server of nova's request, and ``move`` what nova is
    to do with it. ``hosts`` are explained, or else the ``nearest`` ones. ``logs`` have the request
    ``request_id``, or that in which the server failed; without a server, ``asked`` is None. ``at``
    is a snapshot.
    """

    asked: candidate.CandidateOptions | RequestOptions | None
    move: MoveRequest | None
    hosts: Sequence[str]
    nearest: int
    no_nova: bool
    strict: bool
    request_id: str | None = None
    logs: Sequence[pathlib.Path] = ()
    at: pathlib.Path | None = None


class ExplainAllocationCandidate(base.ReportLister):
    """Explain why a request has no allocation candidates

    The request is given by the options of "allocation candidate list", by a query string
    (--query), as nova's request for a flavor or a server, or by its id in logs (--request-id). The
    answer shows where each part of nova's query comes from, how many hosts remain after each
    constraint, which constraints the nearest hosts (or those of --host) fail, the smallest
    changes that give a candidate, and which filters of nova may refuse the candidates.

    The table output has several tables. Other formats have one row per fact; the column section
    tells its kind. Hosts that nova's filters refuse are not counted.
    """

    required_feature = "nested candidates"
    exit_codes = {
        **base.EXIT_CODES,
        0: "a host can serve the request",
        3: "no host can serve it",
        services.NOT_CHECKED: f"{services.UNKNOWN}, {services.DIFFERENT}, or logs have no query",
    }
    example = """\
openstack allocation candidate explain --flavor m1.large \\
    --availability-zone az1
openstack allocation candidate explain --server <server> --host cmp-0001
openstack allocation candidate explain \\
    --query 'resources=VCPU:8,MEMORY_MB:4096&required=HW_CPU_X86_AVX512F'"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_repeated(
            parser,
            "--host",
            "<host>",
            "Explain this host instead of the nearest hosts." + arguments.FORMS,
        )
        parser.add_argument(
            "--nearest",
            metavar="<count>",
            type=arguments.non_negative,
            default=3,
            help="Explain this many hosts that fail the fewest constraints (default: 3)",
        )
        nova_request.add_options(parser)
        group = parser.add_argument_group("the move of a server")
        group.add_argument(
            "--for", dest="move", choices=_MOVES, help="What nova is to do with --server"
        )
        group.add_argument(
            "--to-host", metavar="<host>", help="The target, if nova is not to choose it"
        )
        group.add_argument("--to-flavor", metavar="<flavor>", help="The new flavor of a resize")
        past.add_options(parser)
        candidate.add_query(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        from osc_placement.scheduling.answer import Caveats
        from osc_placement.workflows.cloud import compute_nodes
        from osc_placement.workflows.explain import explain, holders, since

        request = self._request(parsed_args)
        nova = services.optional_nova(self, no_nova=request.no_nova)
        compute = compute_nodes.read_server_hosts(nova)
        client, requests, logs = self._queries(request, compute, nova)
        if not requests:
            # The logs do not have the query.
            logs = logs.completed(None, "")
            self.exit_code, self.summary = services.NOT_CHECKED, list(logs.lines())
            return self._shown(logs.facts())
        main = requests[0]
        of_newest = main.nova and (main.nova, main.nova.second)
        requests = [
            dataclasses.replace(single, hosts=request.hosts, nearest=request.nearest)
            if single is main or (of_newest and single.nova in of_newest)
            else single
            for single in requests
        ]
        own = [query for query in requests if not of_newest or query.nova in of_newest]
        aggregates = _host_aggregates(requests[0], nova)
        with self.reading() as context:
            cloud = since.CloudOfTime(client, compute, list(aggregates.values()), own)
            answers = explain.explain(client, requests, context, compute, cloud.aggregates)
            requests, answers = explain.united(requests, answers)
            main = requests[0]
            if request.at is None:
                logs = logs.completed(answers[0], "now")
            else:
                answer, time, then = past.since_snapshot(request.at, cloud, answers[0], context)
                logs = logs.completed(answer, f"at {time}", then)
            held, problems = holders.read(client, answers[0].short, context, compute, nova)
        caveats = main.nova.caveats if main.nova else Caveats()
        caveats += Caveats(compute.not_checked, tuple(problems)) + answers[0].open
        tried = past.attempts(main.case, len(answers[0].candidates))
        caveats += Caveats((), tuple(tried), not_counted=answers[0].not_counted)
        outcomes = frozenset(bool(answer.candidates) for answer in answers)
        if main.parameters:
            # Nova takes the hosts of all queries of a request.
            outcomes = frozenset({any(outcomes)})
        code = {frozenset({True}): 0, frozenset({False}): 3}.get(outcomes, services.NOT_CHECKED)
        self.exit_code = services.answer_code(
            code,
            caveats,
            strict=request.strict,
            only_placement=request.no_nova or (main.nova is None and nova is None),
        )
        self.summary = [*logs.lines(), *_summary(client.target, requests, answers, caveats)]
        # Without --host, only leaked allocations are shown.
        shown = [holder for holder in held if request.hosts or holder.is_leaked]
        return self._shown([*logs.facts(), *_facts(requests, answers, caveats, aggregates, shown)])

    def _shown(self, rows_of_answer: Iterable[Mapping[str, Any]]) -> base.Rows:
        """The rows, and their tables."""
        facts = list(rows_of_answer)
        self.answer = _tables(facts)
        return COLUMNS, [tuple(fact.get(name) for name in COLUMNS) for fact in facts]

    def _request(self, parsed_args: argparse.Namespace) -> ExplainRequest:
        """What the operator asks. Exits with a usage error for options that exclude each other."""
        move = self._move(parsed_args)
        query = candidate.query_options(self, parsed_args)
        parts = [query.text, *(group.resource for group in query.groups)] if query else []
        past.check(self, parsed_args, has_query=any(parts))
        of_logs = None if parsed_args.request_id else query
        return ExplainRequest(
            nova_request.server_options(parsed_args) if query is None else of_logs,
            move,
            list(filter(None, [*parsed_args.host, parsed_args.to_host])),
            parsed_args.nearest,
            bool(parsed_args.no_nova),
            bool(parsed_args.strict),
            parsed_args.request_id,
            parsed_args.request_log,
            parsed_args.at,
        )

    def _queries(
        self, request: ExplainRequest, compute: ServerHosts, nova: Nova | None
    ) -> tuple[api.Client, list[explain.ExplainedQuery], past.FailureRecords]:
        """The queries to explain, and what happened to them before."""
        from osc_placement.workflows.explain import failed

        if isinstance(request.asked, candidate.CandidateOptions):
            return *self._of_query(request.asked), past.FailureRecords()
        failure, log, requests = None, None, []
        if request.asked is not None:
            requests = self._of_nova(request.asked, request.move, compute)
            server = requests[0].case and requests[0].case.server
            if nova is not None and request.move is None and server:
                failure = failed.observe(nova, server)
        if request.logs:
            log = past.read_log(request.logs, request.request_id, failure)
            requests = past.with_logged(requests, log)
        client = candidate.connected(self, [single.query for single in requests])
        return client, requests, past.FailureRecords(failure, log)

    def _of_nova(
        self, options: RequestOptions, move: MoveRequest | None, compute: ServerHosts
    ) -> list[explain.ExplainedQuery]:
        """Nova's queries for a server: of each release that it may be, and its second ones."""
        from osc_placement.workflows.cloud import cases
        from osc_placement.workflows.explain import explain

        case = cases.read(nova_request.opened(self), options, compute, move)
        return [
            explain.ExplainedQuery(
                query.query,
                list(query.sources),
                nova=query,
                case=dataclasses.replace(case, releases=query.releases or case.releases),
            )
            for single in case.requests
            for query in (single, single.second)
            if query is not None
        ]

    def _move(self, parsed_args: argparse.Namespace) -> MoveRequest | None:
        """The options of a move. Exits with a usage error for those that exclude each other."""
        from osc_placement.scheduling.case import Way
        from osc_placement.workflows.cloud import cases

        kind, flavor, host = parsed_args.move, parsed_args.to_flavor, parsed_args.to_host
        wrong = {
            "--to-flavor: needs --for resize": flavor and kind != "resize",
            "--to-host: needs --for": host and kind is None,
            "--flavor: the new flavor of a resize is --to-flavor": kind == "resize"
            and parsed_args.flavor,
            "--for: needs --server": kind and not parsed_args.server,
            "--for: not allowed with argument --no-nova": kind and parsed_args.no_nova,
            "--for: resize needs --to-flavor": kind == "resize" and not flavor,
            "--to-host: nova chooses the host of a resize; --host explains one": host and flavor,
            "--to-host: not allowed with argument --host": host and parsed_args.host,
        }
        for text in (text for text, is_so in wrong.items() if is_so):
            self.usage_error(f"argument {text}")
        return kind and cases.MoveRequest(Way(kind), host, flavor)

    def _of_query(
        self, options: candidate.CandidateOptions
    ) -> tuple[api.Client, list[explain.ExplainedQuery]]:
        """The client, and the query of the options or of ``--query``."""
        from osc_placement.model import constraint
        from osc_placement.workflows.explain import explain

        client, query = candidate.of_options(self, options)
        parameters = query if isinstance(query, list) else []
        query = read_candidates(query) if isinstance(query, list) else query
        order = constraint.constraints_of(query)
        return client, [explain.ExplainedQuery(query, order, parameters=parameters)]


def _tables(facts: Sequence[Mapping[str, Any]]) -> list[tables.Table]:
    """One table per section; without the columns that have no value."""
    answer = []
    query = next((fact.get("source") for fact in facts if fact["section"] == "query"), None)
    for title, section, columns in _TABLES:
        of_section = [fact for fact in facts if fact["section"] == section]
        filled = {
            name: key
            for name, key in columns.items()
            if any(fact.get(key) not in (None, "") for fact in of_section)
        }
        cells = [[fact.get(key) for key in filled.values()] for fact in of_section]
        of_query = f" of {query}" if query and section == "constraint" else ""
        answer.append(tables.Table(f"{title}{of_query}", tuple(filled), cells))
    to_type = (fact["commands"].machine_readable() for fact in facts if "commands" in fact)
    commands = [[text] for text in dict.fromkeys(itertools.chain.from_iterable(to_type))]
    return [*answer, tables.Table("Commands for the changes", ("command",), commands)]


def _host_aggregates(main: explain.ExplainedQuery, nova: Nova | None) -> dict[str, HostAggregate]:
    """``{UUID: host aggregate}``: of nova's request, or read if the query has aggregates.

    Without the rights to list them, or with a nova before 2.41, the answer has no names.
    """
    from osc_placement.nova.api import host_aggregates
    from osc_placement.workflows.cloud import observe

    listed: Sequence[HostAggregate] = ()
    if main.nova is not None:
        listed = main.nova.aggregates
    elif nova is not None and observe.aggregates([main.query]):
        with contextlib.suppress(errors.PlacementError):
            listed = host_aggregates(nova)
    return {aggregate.uuid: aggregate for aggregate in listed}


def _summary(
    target: str,
    requests: Sequence[explain.ExplainedQuery],
    answers: Sequence[explain.Explanation],
    caveats: Caveats,
) -> list[str]:
    """The lines below the tables: who can serve the request, what was assumed and not checked."""
    from osc_placement.workflows.explain import overwritten_by_nova

    nova, explanation = requests[0].nova, answers[0]
    by = f" of {nova.title}" if nova and len(requests) > 1 else ""
    unless = ""
    if explanation.candidates and caveats.doubts:
        unless = ", unless what was not checked refuses them"
    lines = [f"On {target}: {_count(explanation)} can serve the request{by}{unless}"]
    if explanation.cause:
        lines.append(f"Reason: Placement refuses nova's request: {explanation.cause}")
    lines += [f"Reason: no host has room with {text}" for text in explanation.causes]
    lines += [
        f"{_count(answer)} can serve the request of {_title(older)}: {_text(older.query)}"
        for older, answer in zip(requests[1:], answers[1:], strict=True)
    ]
    if explanation.refused:
        lines.append(
            "Changes left out because this Placement has no candidate for them, or loses candidates"
            f" of this request: {explanation.refused}"
        )
    if nova and explanation.other:
        sent, hosts = explanation.other
        names = f" ({and_more(hosts)})" if hosts else ""
        lines.append(
            f"The tables are about {_of_pinned(nova)}; {_of_pinned(sent)} finds"
            f" {counted(len(hosts), 'host')}{names}: {_text(sent.query)}"
        )
    lines += _named(explanation)
    lines += [
        f"Note: {text}"
        for text in (*explanation.hints, *overwritten_by_nova.notes(explanation.changes))
    ]
    return [*lines, *services.caveat_lines(caveats)]


def _named(explanation: explain.Explanation) -> list[str]:
    """A line for each named provider that is below a host, or whose host can serve the request."""
    lines = []
    for text, host in explanation.named.items():
        serves = "can serve the request" if host in explanation.candidates else "is explained"
        if text != host:
            lines.append(f"{text} is part of {host}, which {serves}")
        elif host in explanation.candidates:
            lines.append(f"{host} {serves}")
    return lines


def _title(query: explain.ExplainedQuery) -> str:
    """Who sends a query that is not the first one."""
    return query.nova.title if query.nova else "another query of the logs"


def _of_pinned(sent: request.NovaRequest) -> str:
    """Which of nova's two queries for pinned CPUs it is: the first one has the second one."""
    return "nova's first query (PCPU)" if sent.second else "nova's second query (VCPU)"


def _text(query: CandidateQuery) -> str:
    return encode(candidate_pairs(query)).removeprefix("?")


def _count(explanation: explain.Explanation) -> str:
    """``3 of 12 hosts``, or ``no compute host (0 of 12)``."""
    if explanation.candidates:
        return f"{len(explanation.candidates)} of {counted(explanation.all_hosts, 'host')}"
    if explanation.cause:
        return "no compute host"
    return f"no compute host (0 of {explanation.all_hosts})"


def _facts(
    requests: Sequence[explain.ExplainedQuery],
    answers: Sequence[explain.Explanation],
    caveats: Caveats,
    aggregates: commands.Aggregates,
    allocations: Sequence[holders.RoomHolder],
) -> list[dict[str, Any]]:
    """The rows of the answer, as ``{column: value}``."""
    from osc_placement.workflows.explain import overwritten_by_nova

    main, explanation = requests[0], answers[0]
    sources = main.nova.sources if main.nova else {}
    facts: list[dict[str, Any]] = [
        *(
            {
                "section": "constraint",
                "text": str(step.constraint),
                "source": str(sources.get(step.constraint, "")) or None,
                "hosts": step.hosts,
            }
            for step in explanation.funnel
        ),
        *({"section": "candidate", "text": name, "host": name} for name in explanation.candidates),
        *({"section": "cause", "text": text} for text in explanation.causes),
        *map(_failure_fact, explanation.failures),
        *(_holder_fact(holder, allocations) for holder in allocations),
        *(
            _change_fact(change, explanation, aggregates, main.nova)
            for change in explanation.changes
        ),
        *map(_filter_fact, explanation.checks),
        *(
            {"section": "not-counted", "text": why, "host": name}
            for name, why in explanation.not_counted.items()
        ),
        *([{"section": "failure", "text": explanation.cause}] if explanation.cause else []),
        *(
            {"section": "note", "text": text}
            for text in (*explanation.hints, *overwritten_by_nova.notes(explanation.changes))
        ),
        *(
            {"section": section, "text": text}
            for section, texts in (("not-checked", caveats.doubts), ("note", caveats.notes))
            for text in dict.fromkeys(texts)
        ),
        *({"section": "assumption", "text": text} for text in caveats.assumed),
    ]
    for fact in facts:
        fact["text"] = _with_names(fact["text"], aggregates)
    of_releases = [
        {
            "section": "nova-release" if older.nova else "logged-query",
            "text": _text(older.query),
            "source": _title(older),
            "hosts": len(answer.candidates),
            "names": list(answer.candidates),
        }
        for older, answer in zip(requests[1:], answers[1:], strict=True)
    ]
    query, *other = _query_facts(main, explanation)
    return [query, *facts, *other, *of_releases]


def _query_facts(
    main: explain.ExplainedQuery, explanation: explain.Explanation
) -> Iterator[dict[str, Any]]:
    """The query that is explained, then nova's other one for pinned CPUs."""
    query = {"section": "query", "text": _text(main.query), "hosts": explanation.all_hosts}
    if not main.nova or not explanation.other:
        yield query
        return
    yield {**query, "source": _of_pinned(main.nova)}
    sent, hosts = explanation.other
    yield {
        "section": "nova-query",
        "text": _text(sent.query),
        "source": _of_pinned(sent),
        "hosts": len(hosts),
        "names": list(hosts),
    }


def _with_names(text: str, aggregates: commands.Aggregates) -> str:
    """A text with the names of host aggregates after their UUIDs."""
    for uuid, aggregate in aggregates.items():
        if uuid in text:
            text = text.replace(uuid, f"{uuid} ({aggregate.name})")
    return text


def _failure_fact(failure: failures.Failure) -> dict[str, Any]:
    inventory = failure.inventory
    return {
        "section": "failure",
        "text": failure.text,
        "host": failure.host,
        "provider": failure.provider,
        "group": failure.suffix,
        "reason": str(failure.reason),
        "names": list(failure.names),
        "requested": failure.requested,
        "free": failure.free,
        "inventory": {**inventory.as_dict(), "used": failure.used} if inventory else None,
    }


def _holder_fact(
    holder: holders.RoomHolder, others: Sequence[holders.RoomHolder]
) -> dict[str, Any]:
    from osc_placement.workflows.explain.holders import audit

    leaked = [other for other in others if other.is_leaked and other.host == holder.host]
    return {
        "section": "holder",
        "text": ", ".join(f"{amount} {name}" for name, amount in holder.amounts.items()),
        "source": holder.name or None,
        "host": holder.host,
        "provider": holder.provider,
        "consumer": holder.consumer_uuid,
        "reason": holder.text,
        "details": {"amounts": dict(holder.amounts), "is_leaked": holder.is_leaked},
        **({"commands": rows.lines([audit(leaked)])} if holder.is_leaked else {}),
    }


def _change_fact(
    change: changes.SmallestChange,
    explanation: explain.Explanation,
    aggregates: commands.Aggregates,
    nova_request: request.NovaRequest | None,
) -> dict[str, Any]:
    from osc_placement.workflows.explain import commands

    steps = [
        {
            "action": str(step.action),
            "provider": step.provider,
            "name": step.name,
            "field": step.field or None,
            "amount": step.amount or None,
            "value": step.value if str(step.action) == "raise" else None,
        }
        for step in change.steps
    ]
    return {
        "section": "change",
        "text": change.text,
        "hosts": change.hosts,
        "host": change.host,
        "details": {
            "steps": steps,
            "remove": [str(item) for item in change.removed],
            "amounts": {str(item): amount for item, amount in change.amounts.items()},
        },
        "commands": rows.lines(commands.commands(change, explanation, aggregates, nova_request)),
    }


def _filter_fact(check: verdict.RuleCheck) -> dict[str, Any]:
    return {
        "section": "nova-filter",
        "text": check.text,
        "reason": check.rule,
        "hosts": len(check.refused),
        "verdict": str(check.says),
        "details": {"enabled": check.is_enabled, "refused": dict(check.refused)},
    }
