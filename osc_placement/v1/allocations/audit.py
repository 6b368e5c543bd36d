"""``placement allocation audit``."""

from __future__ import annotations

import argparse
import collections
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from osc_placement.plan import guards as plan_guards
from osc_placement.v1 import base, plan_command, services
from osc_placement.v1.options import arguments
from osc_placement.v1.output import plan_rows, rows

if TYPE_CHECKING:
    from osc_placement.plan import result
    from osc_placement.plan.plan import ObservedPlan
    from osc_placement.workflows.allocations.audit import finding

COLUMNS = ("code", "name", "uuid", "hosts", "evidence", "proposed", "cause", "action")
REPAIR_COLUMNS = (*COLUMNS, "status", "reason", "reason_code")

#: Nova's own last steps of a move or a deletion take seconds.
_MIN_AGE = 60

_REQUIRE_REPAIR = (
    "dry_run",
    "detailed_exitcode",
    "plan_out",
    "undo_out",
    "max_count",
    "max_percent",
)


class AuditAllocations(plan_command.PlanCommand):
    """Find allocations that do not match nova's servers, and repair them

    Each finding has a code (see --only), its evidence and a proposed repair; for programs also
    the cause of the code and the proposed action, as codes. The expected
    allocations of a moving server depend on the phase of its move. The code is unknown if a
    deviation may be correct, if its repair is not certain, or if the consumer may belong to
    another service.

    --repair makes the proposed repairs. Each write replaces all allocations of one consumer
    under its generation, so that concurrent changes are never overwritten, and nova is read
    again just before it. Unknown findings and providers are never changed; the proposal
    describes what the operator can do. Nothing is changed if the repairs would remove more than
    --max-percent of all allocations: a policy that hides servers makes them look orphaned.
    """

    required_feature = "consumer generation"
    exit_codes = {
        **base.EXIT_CODES,
        0: "no findings that can be repaired; with --strict: no findings",
        3: "findings that can be repaired, or are left; with --strict: any findings",
        4: "all findings that can be repaired were repaired",
        5: "the limit of --max-count is reached and findings are left",
        6: "some repairs failed, or all were refused (see --max-percent)",
        7: "some consumers are stale: they changed after they were read",
        130: "interrupted; repairs in progress were finished",
    }
    guards = (plan_guards.MANY, plan_guards.RECORDED_NOVA)
    limits_removals = True
    column_names = REPAIR_COLUMNS
    example = """\
openstack placement allocation audit
openstack placement allocation audit --repair --only orphaned \\
    --only doubled --dry-run
openstack placement allocation audit --repair --host cmp-0001"""

    uses_nova = True
    recorded_arguments = (
        "repair",
        "host",
        "only",
        "check_owners",
        "skip_port_allocations",
        "min_age",
        "max_percent",
    )

    _findings: Sequence[finding.Finding] = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        from osc_placement.workflows.allocations.audit import checks

        group = parser.add_argument_group("what to audit")
        group.add_argument(
            "--host",
            metavar="<host>",
            action="append",
            default=[],
            help="Only findings about this host (nova's name), or the provider with this name."
            " Repeatable.",
        )
        group.add_argument(
            "--only",
            metavar="<code>",
            action="append",
            default=[],
            choices=checks.CODES,
            help=f"Only findings with this code: {', '.join(checks.CODES)}. Repeatable.",
        )
        group.add_argument(
            "--min-age",
            metavar="<seconds>",
            type=arguments.non_negative,
            default=_MIN_AGE,
            help="Report as unknown what nova changed in the last seconds, and do not repair it"
            f" (default: {_MIN_AGE})",
        )
        group.add_argument(
            "--strict",
            action="store_true",
            help="Exit with 3 also if no finding can be repaired",
        )
        services.add_check_owners(group)
        services.add_skip_port_allocations(group)
        group.add_argument("--repair", action="store_true", help="Make the proposed repairs")
        services.add_recording(group)
        self.add_change_options(parser)

    def check_arguments(self, parsed_args: argparse.Namespace) -> None:
        given = [name for name in _REQUIRE_REPAIR if getattr(parsed_args, name)]
        if given and not parsed_args.repair:
            self.usage_error(f"--{given[0].replace('_', '-')} requires --repair")
        # An audit without --repair is a dry run of the repair.
        parsed_args.dry_run = parsed_args.dry_run or not parsed_args.repair

    def plan(self, run: plan_command.Run, parsed_args: argparse.Namespace) -> ObservedPlan:
        from osc_placement.workflows.allocations.audit import observe

        request = observe.AuditRequest(
            hosts=frozenset(parsed_args.host),
            min_age=parsed_args.min_age,
            repair=parsed_args.repair,
            only=frozenset(parsed_args.only),
            check_owners=parsed_args.check_owners,
        )
        audited = observe.audit_cloud(
            run.client, run.services.nova, request, run.context, run.services.neutron_for_ports
        )
        self._findings = audited.findings
        return audited.planned

    def finish(
        self, report: result.RunReport, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], list[Any]]:
        findings, strict = self._findings, parsed_args.strict
        if not parsed_args.repair:
            self.exit_code = _code(findings, strict=strict)
            notes = [f"Note: {note}" for note in report.notes]
            self.summary = [f"On {report.target}: {_counts(findings)}", *notes]
            return COLUMNS, [_row(item) for item in findings]
        super().finish(report, parsed_args)
        self.summary = [*self.summary[:1], f"Found: {_counts(findings)}", *self.summary[1:]]
        results = {item.subject.uuid: item for item in report.results}
        if report.dry_run:
            self.exit_code = _code(findings, strict=strict)
        elif not self.exit_code:
            self.exit_code = _code_after(findings, results, strict=strict)
        return REPAIR_COLUMNS, [_row(item) + _end(item, results) for item in findings]

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """The table of a repair has no room for the evidence."""
        repaired = "status" in column_names
        end = ("proposed", "status", "reason") if repaired else ("evidence", "proposed")
        self.table_columns = ("code", "name", *end)
        return super().produce_output(parsed_args, column_names, data)


def _code(findings: Sequence[finding.Finding], *, strict: bool) -> int:
    return 3 if any(strict or item.repair for item in findings) else 0


def _code_after(
    findings: Sequence[finding.Finding],
    results: Mapping[str, result.ChangeResult],
    *,
    strict: bool,
) -> int:
    """The exit code of a repair without failures."""
    repairable = [item for item in findings if item.repair]
    if any(not results[item.subject.uuid].succeeded for item in repairable):
        return 3
    if strict and len(repairable) < len(findings):
        return 3
    return 4 if repairable else 0


def _row(item: finding.Finding) -> rows.Row:
    """The values of COLUMNS."""
    return (
        str(item.code),
        item.subject.name,
        item.subject.uuid,
        rows.Lines([*item.hosts]),
        rows.Described(item.evidence.fields, item.evidence.text),
        rows.Described(item.proposed.fields, item.proposed.text),
        str(item.evidence.cause),
        str(item.proposed.action),
    )


def _end(item: finding.Finding, results: Mapping[str, result.ChangeResult]) -> rows.Row:
    """Status, reason and its code; all findings about a consumer have the same."""
    if not item.repair:
        return ("skipped", plan_rows.Reasons(""), str(item.evidence.cause))
    found = results[item.subject.uuid]
    reason = "" if str(found.status) in {"applied", "planned"} else found.reason
    return (str(found.status), plan_rows.Reasons(reason), str(found.code))


def _counts(findings: Sequence[finding.Finding]) -> str:
    """``7 findings: 4 orphaned, 2 doubled, 1 unknown``."""
    from osc_placement.workflows.allocations.audit import checks

    counts = collections.Counter(str(item.code) for item in findings)
    parts = ", ".join(f"{counts[code]} {code}" for code in checks.CODES if counts[code])
    count = "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
    return f"{count}: {parts}" if findings else "no findings"
