"""``placement allocation audit``."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import datetime
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from osc_placement import errors
from osc_placement.plan import guards as plan_guards
from osc_placement.v1 import arguments, base, change, nova, progress, rows

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.nova import api as nova_api
    from osc_placement.plan import result
    from osc_placement.workflows.allocations.audit import finding, observe

COLUMNS = ("code", "name", "uuid", "host", "evidence", "proposed")
REPAIRED = (*COLUMNS, "status", "reason")

#: Plain words, for parsing imports no workflow; a test holds them to ``finding.Code``.
CODES = (
    "orphaned",
    "doubled",
    "missing",
    "wrong-host",
    "wrong-size",
    "wrong-owner",
    "incomplete",
    "over-capacity",
    "stale-provider",
    "unknown",
)

#: Nova's own last steps of a move or a deletion take seconds.
_MIN_AGE = 60

_GO_WITH_REPAIR = ("dry_run", "detailed_exitcode", "plan_out", "undo_out", "max_count")


class AuditAllocations(change.Changing):
    """Find allocations that are not as nova's servers are, and repair them

    Every finding has a code, its evidence and what is proposed: orphaned, doubled, missing,
    wrong-host, wrong-size, wrong-owner, incomplete (no owner), over-capacity,
    stale-provider. Servers that are moving are judged by where they are in their move. What is
    odd, but not surely wrong, or what nobody can tell how to repair, is unknown; and so is a
    consumer that may be another service's.

    With --repair what is proposed is done: each consumer is written whole under its
    generation, so that whoever changed it meanwhile wins, and nova is asked again just
    before. What is unknown is never touched, and neither are providers: of these it says
    what to do.
    """

    required_feature = "consumer generation"
    exit_codes = {
        **base.EXIT_CODES,
        0: "nothing was found that could be repaired; with --strict: nothing at all",
        3: "findings that can be repaired, or were left; with --strict: any findings",
        4: "all that could be repaired was",
        5: "the limit of --max-count is reached and findings are left",
        6: "some repairs failed",
        7: "some consumers are stale: somebody else changed them since they were read",
        130: "interrupted; what was in flight was finished",
    }
    guards = (plan_guards.RECORDED_NOVA,)
    column_names = REPAIRED
    example = """\
openstack placement allocation audit
openstack placement allocation audit --repair --only orphaned \\
    --only doubled --dry-run
openstack placement allocation audit --repair --host cmp-0001"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("what to audit")
        group.add_argument(
            "--host",
            metavar="<host>",
            action="append",
            default=[],
            help="Only what is about this host, as nova calls it, or about the provider of this"
            " name. Repeatable.",
        )
        group.add_argument(
            "--only",
            metavar="<code>",
            action="append",
            default=[],
            choices=CODES,
            help=f"Only findings of this code: {', '.join(CODES)}. Repeatable.",
        )
        group.add_argument(
            "--min-age",
            metavar="<seconds>",
            type=arguments.non_negative,
            default=_MIN_AGE,
            help="What nova changed within so many seconds is unknown and not repaired (default:"
            f" {_MIN_AGE})",
        )
        group.add_argument(
            "--strict",
            action="store_true",
            help="Exit with 3 also when all that was found is what cannot be repaired",
        )
        group.add_argument(
            "--skip-port-allocations",
            action="store_true",
            help="Do not ask neutron for ports with resource requests, and leave these as they are",
        )
        group.add_argument("--repair", action="store_true", help="Do what is proposed")
        nova.add_recording(parser)
        self.add_change_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        given = [name for name in _GO_WITH_REPAIR if getattr(parsed_args, name)]
        if given and not parsed_args.repair:
            self.usage_error(f"--{given[0].replace('_', '-')} goes with --repair")
        from osc_placement.workflows.allocations.audit import finding, observe

        client = self.connect()
        asked = nova.reached(self, parsed_args)
        self._check_recorded(asked, parsed_args)
        request = observe.AuditRequest(
            hosts=frozenset(parsed_args.host),
            min_age=parsed_args.min_age,
            repair=parsed_args.repair,
            only=frozenset(map(finding.Code, parsed_args.only)),
        )
        return self._audited(client, asked, request, parsed_args)

    def _check_recorded(self, asked: nova_api.Nova, parsed_args: argparse.Namespace) -> None:
        """What nova said on another day repairs an embedded Placement, and no other."""
        changes = parsed_args.repair and not parsed_args.dry_run
        if not changes or not asked.source or self._embedded():
            return
        if plan_guards.RECORDED_NOVA not in parsed_args.allow:
            raise errors.PlacementError(
                f"nova's answers come from {asked.source}, and servers may have changed since:"
                " nothing was repaired. Ask nova itself (without --nova-recording), rehearse on a"
                f" snapshot (--os-placement-database), or --allow {plan_guards.RECORDED_NOVA}"
            )

    def _audited(
        self,
        client: api.Client,
        asked: nova_api.Nova,
        request: observe.AuditRequest,
        parsed_args: argparse.Namespace,
    ) -> tuple[tuple[str, ...], list[Any]]:
        from osc_placement.plan import apply
        from osc_placement.plan.kinds import bound_ports
        from osc_placement.workflows import context
        from osc_placement.workflows.allocations import precondition
        from osc_placement.workflows.allocations.audit import observe

        started = datetime.datetime.now(datetime.UTC)
        with progress.shown(quiet=self.is_quiet) as watch:
            reading = context.ReadContext(parsed_args.workers, watch)
            ports = None if parsed_args.skip_port_allocations else nova.ports(asked, self)
            found = observe.audit_cloud(client, asked, request, reading, ports)
            if not request.repair:
                return self._told(found, client.target, parsed_args)
            how = dataclasses.replace(
                change.options(parsed_args, watch),
                broken=precondition.NovaPreconditions(asked, started),
                kinds=bound_ports.kinds(ports),
            )
            line = f"{self.cmd_name} {' '.join(_words(parsed_args))}"
            report = apply.carry_out(client, found.planned, line, how)
        return self._repaired(found.findings, report, parsed_args)

    def _told(
        self, found: observe.AuditResult, target: str, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], list[Any]]:
        """What was found."""
        self.exit_code = _code(found.findings, strict=parsed_args.strict)
        notes = [f"Note: {note}" for note in found.planned.plan.notes]
        self.tell([f"On {target}: {_summary(found.findings)}", *notes])
        return COLUMNS, [_row(item) for item in found.findings]

    def _repaired(
        self,
        findings: Sequence[finding.Finding],
        report: result.RunReport,
        parsed_args: argparse.Namespace,
    ) -> tuple[tuple[str, ...], list[Any]]:
        """What was found, and what became of it."""
        self.finish(report, parsed_args)
        self.tell([*self._said[:1], f"Found: {_summary(findings)}", *self._said[1:]])
        outcomes = {item.subject.uuid: item for item in report.outcomes}
        if report.dry_run:
            self.exit_code = _code(findings, strict=parsed_args.strict)
        elif not self.exit_code:
            self.exit_code = _code_after(findings, outcomes, strict=parsed_args.strict)
        return REPAIRED, [_row(item) + _end(item, outcomes) for item in findings]

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """A table keeps to what fits: evidence and proposal name the hosts."""
        if parsed_args.formatter == "table":
            end = ["status", "reason"] if "status" in column_names else []
            shown = ["code", "name", *([] if end else ["evidence"]), "proposed", *end]
            parsed_args.columns = parsed_args.columns or shown
        return super().produce_output(parsed_args, column_names, data)


def _code(findings: Sequence[finding.Finding], *, strict: bool) -> int:
    return 3 if any(strict or item.repair for item in findings) else 0


def _code_after(
    findings: Sequence[finding.Finding],
    outcomes: Mapping[str, result.ChangeResult],
    *,
    strict: bool,
) -> int:
    """When nothing failed: whether all that could be repaired was."""
    repairable = [item for item in findings if item.repair]
    if any(not _is_done(outcomes[item.subject.uuid]) for item in repairable):
        return 3
    if strict and len(repairable) < len(findings):
        return 3
    return 4 if repairable else 0


def _is_done(ended: result.ChangeResult) -> bool:
    return str(ended.status) in {"applied", "unchanged"}


def _row(item: finding.Finding) -> rows.Row:
    """The values of COLUMNS."""
    return (
        str(item.code),
        item.subject.name,
        item.subject.uuid,
        ", ".join(item.hosts),
        change.Reasons(item.evidence),
        change.Reasons(item.proposed),
    )


def _end(item: finding.Finding, outcomes: Mapping[str, result.ChangeResult]) -> rows.Row:
    """The values of the last columns of REPAIRED; a consumer's end is all its findings'."""
    if not item.repair:
        return ("left alone", change.Reasons(""))
    ended = outcomes[item.subject.uuid]
    told = "" if str(ended.status) in {"applied", "planned"} else ended.reason
    return (str(ended.status), change.Reasons(told))


def _summary(findings: Sequence[finding.Finding]) -> str:
    """``7 findings: 4 orphaned, 2 doubled, 1 unknown``."""
    counts = collections.Counter(str(item.code) for item in findings)
    told = ", ".join(f"{counts[code]} {code}" for code in CODES if counts[code])
    count = "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
    return f"{count}: {told}" if findings else "no findings"


def _words(parsed_args: argparse.Namespace) -> Iterator[str]:
    """The arguments that say what to repair, for the plan file to tell."""
    yield "--repair"
    for option in ("host", "only"):
        for value in getattr(parsed_args, option):
            yield shlex.join([f"--{option}", value])
    if parsed_args.skip_port_allocations:
        yield "--skip-port-allocations"
    yield f"--min-age {parsed_args.min_age}"
