"""``placement plan list | prune``: the plans that were applied from this account."""

from __future__ import annotations

import argparse
import datetime
from typing import TYPE_CHECKING, Any

from osc_placement.v1 import base, plan_command
from osc_placement.v1.options import arguments
from osc_placement.v1.output import rows

if TYPE_CHECKING:
    from osc_placement.plan import record

COLUMNS = (
    "created",
    "status",
    "undoable",
    "target",
    "command",
    "changes",
    "applied",
    "undone",
    "to_continue",
    "to_undo",
)
PRUNE_COLUMNS = ("created", "status", "target", "command", "result", "files")

_DAYS = 30


class _LocalCommand(base.ReportLister):
    """A command that reads the files of plans only: no cloud is needed."""

    writes = False

    @property
    def auth_required(self) -> bool:
        return False

    def read_records(self) -> list[record.Record]:
        """The plans; unreadable journals are reported."""
        from osc_placement.plan import record

        records = record.read_all()
        for error in records.errors:
            self.log.warning("%s", error)
        return records.found


class ListPlans(_LocalCommand):
    """List the plans that were applied or undone, the newest first

    For all clouds, from the journals in $XDG_STATE_HOME/osc-placement. The status is running,
    unfinished (changes are left after a limit, a failure or an interruption), applied, undone,
    or "nothing applied". to_continue and to_undo are the commands that continue and undo the
    plan. A plan that was only written, with --dry-run --plan-out, is not listed.
    """

    table_columns = ("created", "status", "undoable", "target", "command")
    example = """\
openstack placement plan list
openstack placement plan list -f value -c to_continue --status unfinished"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--status",
            choices=("running", "unfinished", "applied", "undone"),
            help="Only plans with this status",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        wanted = parsed_args.status
        found = [item for item in self.read_records() if wanted in (None, str(item.status))]
        if parsed_args.formatter == "table" and not parsed_args.columns:
            self.summary = [f"To continue: {text}" for text in map(_to_continue, found) if text]
        return COLUMNS, [_row(item) for item in found]


class PrunePlans(_LocalCommand):
    """Delete the files of plans that are finished and old

    Shows what would be deleted; --delete deletes it: the journal, and the plan and undo files
    in $XDG_STATE_HOME/osc-placement. Files elsewhere stay. A deleted plan can no longer be
    undone. Unfinished plans are kept, unless --unfinished is given.
    """

    table_columns = ("created", "status", "target", "command", "result")
    example = """\
openstack placement plan prune
openstack placement plan prune --older-than 90 --delete"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--older-than",
            metavar="<days>",
            type=arguments.non_negative,
            default=_DAYS,
            help=f"Only plans that were made at least this many days ago (default: {_DAYS})",
        )
        parser.add_argument(
            "--unfinished",
            action="store_true",
            help="Also unfinished plans, which then can no longer be continued",
        )
        parser.add_argument("--delete", action="store_true", help="Delete the files")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        from osc_placement.plan import record

        found = record.older_than(self.read_records(), parsed_args.older_than)
        data = [_pruned_row(item, self._prune(item, parsed_args)) for item in found]
        if not parsed_args.delete:
            self.summary = ["Nothing was deleted. To delete the files, add --delete"]
        return PRUNE_COLUMNS, data

    def _prune(self, item: record.Record, parsed_args: argparse.Namespace) -> str:
        """Delete the files of a plan, if it may be; what was done."""
        from osc_placement.plan import plan, record

        if item.status is record.Status.RUNNING:
            return "kept"
        if not item.is_finished and not parsed_args.unfinished:
            return "kept"
        if not parsed_args.delete:
            return "would be deleted"
        try:
            record.delete(item)
        except (OSError, plan.PlanRefused) as error:
            self.exit_code = 1
            self.log.warning("%s: %s", item.journal, error)
            return "failed"
        return "deleted"


def _row(item: record.Record) -> rows.Row:
    """The values of COLUMNS."""
    return (
        _seconds(item.created),
        str(item.status),
        item.undo_file is not None,
        item.target,
        item.command,
        item.changes,
        item.applied,
        item.undone,
        _to_continue(item),
        "" if item.undo_file is None else plan_command.plan_command("undo", item.undo_file),
    )


def _to_continue(item: record.Record) -> str:
    """The command that continues an unfinished plan; empty for others."""
    from osc_placement.plan import record

    if item.status is not record.Status.UNFINISHED:
        return ""
    path = item.undo if item.is_undo else item.plan
    return plan_command.to_continue(item.command, path, undoes=item.is_undo)


def _pruned_row(item: record.Record, result: str) -> rows.Row:
    """The values of PRUNE_COLUMNS."""
    files = rows.Lines([str(path) for path in item.files])
    return (_seconds(item.created), str(item.status), item.target, item.command, result, files)


def _seconds(created: str) -> str:
    return datetime.datetime.fromisoformat(created).isoformat(timespec="seconds")
