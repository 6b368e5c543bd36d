"""The base class of the audits: findings as rows, ``--repair``, and the exit codes."""

from __future__ import annotations

import argparse
import collections
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from osc_placement.v1 import base, plan_command, services
from osc_placement.v1.output import plan_rows, rows

if TYPE_CHECKING:
    from osc_placement.plan import result
    from osc_placement.workflows import findings

COLUMNS = ("code", "name", "uuid", "hosts", "evidence", "proposed", "cause", "action")
REPAIR_COLUMNS = (*COLUMNS, "status", "reason", "reason_code")

#: The exit code of a repair after which no finding that can be repaired is left.
REPAIRED = 9

EXIT_CODES: Mapping[int, str] = {
    **base.EXIT_CODES,
    0: "no findings that can be repaired; with --strict: no findings",
    3: "findings that can be repaired, or are left; with --strict: any findings",
    5: "the limit of --max-count is reached and findings are left",
    6: "some repairs failed, or a guard refused them",
    7: "some items are stale: they changed after they were read",
    REPAIRED: "all findings that can be repaired were repaired",
    130: "interrupted; repairs in progress were finished",
}

_REQUIRE_REPAIR = (
    "dry_run",
    "detailed_exitcode",
    "plan_out",
    "undo_out",
    "max_count",
    "max_percent",
)


class AuditCommand(plan_command.PlanCommand):
    """A command that reports findings, and repairs those that it can.

    ``plan`` of a subclass sets ``findings``. All findings about one subject have one change.
    """

    exit_codes = EXIT_CODES
    column_names = REPAIR_COLUMNS

    findings: Sequence[findings.Finding[Any]] = ()

    def codes(self) -> Sequence[str]:
        """The codes of findings, in the order of the summary."""
        raise NotImplementedError

    def add_audit_options(self, group: argparse._ActionsContainer) -> None:
        """Add the options that select and repair findings."""
        group.add_argument(
            "--host",
            metavar="<host>",
            action="append",
            default=[],
            help="Only findings about this host (nova's name), or the provider with this name."
            " May be repeated.",
        )
        group.add_argument(
            "--only",
            metavar="<code>",
            action="append",
            default=[],
            choices=self.codes(),
            help=f"Only findings with this code: {', '.join(self.codes())}. May be repeated.",
        )
        group.add_argument(
            "--strict",
            action="store_true",
            help="Exit with 3 also if no finding can be repaired",
        )
        group.add_argument("--repair", action="store_true", help="Make the proposed repairs")
        services.add_recording(group)

    def check_arguments(self, parsed_args: argparse.Namespace) -> None:
        given = [name for name in _REQUIRE_REPAIR if getattr(parsed_args, name, None)]
        if given and not parsed_args.repair:
            self.usage_error(f"--{given[0].replace('_', '-')} requires --repair")
        # An audit without --repair is a dry run of the repair.
        parsed_args.dry_run = parsed_args.dry_run or not parsed_args.repair

    def finish(
        self, report: result.RunReport, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], list[Any]]:
        findings, strict = self.findings, parsed_args.strict
        if not parsed_args.repair:
            self.exit_code = _code(findings, strict=strict)
            notes = [f"Note: {note}" for note in report.notes]
            self.summary = [f"On {report.target}: {self._counts()}", *notes]
            return COLUMNS, [_row(item) for item in findings]
        super().finish(report, parsed_args)
        self.summary = [*self.summary[:1], f"Found: {self._counts()}", *self.summary[1:]]
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

    def _counts(self) -> str:
        """``7 findings: 4 orphaned, 2 doubled, 1 unknown``."""
        findings = self.findings
        counts = collections.Counter(str(item.code) for item in findings)
        parts = ", ".join(f"{counts[code]} {code}" for code in self.codes() if counts[code])
        count = "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
        return f"{count}: {parts}" if findings else "no findings"


def _code(findings: Sequence[findings.Finding[Any]], *, strict: bool) -> int:
    return 3 if any(strict or item.is_repairable for item in findings) else 0


def _code_after(
    findings: Sequence[findings.Finding[Any]],
    results: Mapping[str, result.ChangeResult],
    *,
    strict: bool,
) -> int:
    """The exit code of a repair without failures."""
    repairable = [item for item in findings if item.is_repairable]
    if any(not results[item.subject.uuid].succeeded for item in repairable):
        return 3
    if strict and len(repairable) < len(findings):
        return 3
    return REPAIRED if repairable else 0


def _row(item: findings.Finding[Any]) -> rows.Row:
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


def _end(item: findings.Finding[Any], results: Mapping[str, result.ChangeResult]) -> rows.Row:
    """Status, reason and its code; all findings about a subject have the same."""
    if not item.is_repairable:
        return ("skipped", plan_rows.Reasons(""), str(item.evidence.cause))
    found = results[item.subject.uuid]
    reason = "" if str(found.status) in {"applied", "planned"} else found.reason
    return (str(found.status), plan_rows.Reasons(reason), str(found.code))
