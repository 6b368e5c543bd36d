# SPDX-License-Identifier: Apache-2.0
"""The base class of all commands that change the cloud: connect, plan, apply, show the result."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from osc_placement import errors
from osc_placement.model import command_line as lines
from osc_placement.model.name import counted
from osc_placement.plan.guards import MANY, MAX_PERCENT, RECORDED_NOVA, SMALL
from osc_placement.v1.common import arguments, base, services
from osc_placement.v1.output import (
    help_text,
    progress,
    rows,
    tables,
)

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.plan import apply, result
    from osc_placement.plan.plan import ObservedPlan
    from osc_placement.workflows.cloud.context import ReadContext
    from osc_placement.workflows.cloud.selector import Selector

EXIT_CODES: Mapping[int, str] = {
    **base.EXIT_CODES,
    0: "success, or nothing to do",
    3: "a dry run with --detailed-exitcode found changes to make, and refused none",
    5: "the limit of --max-count is reached and changes are left",
    6: "some changes failed or were refused",
    7: "some items are stale: they changed after the plan was made",
    130: "interrupted; changes in progress were finished",
}


#: Arguments that a continued run has too; plan files do not record them.
_REPEATED = ("max_count", "allow")


class CommandRun(NamedTuple):
    """What one run of a command uses."""

    client: api.Client
    context: ReadContext
    services: services.NovaServices


class PlanCommand(base.ReportLister):
    """A command that plans changes, applies them and shows one row per item.

    A subclass defines ``plan``. The other methods are defaults that it can override.
    """

    writes = True
    names_database = False
    exit_codes = EXIT_CODES

    #: Whether the limit of removals (the guard MANY) holds without ``--max-percent`` too: where the
    #: operator does not name what is removed.
    has_default_limit: ClassVar[bool] = True

    #: What ``--max-percent`` limits, for its help.
    limited: ClassVar[str] = "what exists"

    #: Whether it limits the capacity of each resource class too, as a sum over providers.
    limits_capacity: ClassVar[bool] = False

    #: Whether the plan is new, and not that of a file.
    makes_plan: ClassVar[bool] = True

    #: Whether a run undoes a plan. Then it writes no undo file.
    undoes: ClassVar[bool] = False

    #: Whether changes depend on nova's servers, hosts or host aggregates, or on neutron's ports.
    uses_nova: ClassVar[bool] = False

    column_names: ClassVar[Sequence[str]] = rows.COLUMNS

    table_columns: Sequence[str] = ("name", "before", "after", "status", "reason")

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Build the parser, with the options of the rows. Sends no request."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--rows",
            choices=("first", "changed", "all"),
            default="first",
            help=f"On a terminal: the first {tables.MOST_ROWS} rows, those that need attention"
            " before the others (the default), or all rows. In every format: changed omits the rows"
            " of unchanged items.",
        )
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command, after a check of arguments that would hide its result."""
        columns = self.columns_of(parsed_args)
        unknown = [text for text in parsed_args.columns if tables.normalized(text) not in columns]
        if unknown:
            names = ", ".join(columns)
            self.usage_error(f"unknown column {', '.join(unknown)}; the columns are {names}")
        if self._prints_plan(parsed_args) and not parsed_args.dry_run:
            self.usage_error("argument --plan-out: - needs --dry-run")
        return super().run(parsed_args)

    def _prints_plan(self, parsed_args: argparse.Namespace) -> bool:
        """Whether standard output gets the plan, and not the rows."""
        return bool(parsed_args.plan_out == pathlib.Path("-"))

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        self.check_arguments(parsed_args)
        self.check_recording(parsed_args)
        client = self.connect(self.features(parsed_args))
        skips_ports = getattr(parsed_args, "skip_port_allocations", False)
        cloud = services.NovaServices(self, skips_ports=skips_ports)
        with progress.shown(
            quiet=self.is_quiet, log=parsed_args.log_json, command=self.cmd_name or ""
        ) as shown:
            context = services.read_context(self, parsed_args.workers, shown)
            run = CommandRun(client, context, cloud)
            report = self.execute(run, parsed_args)
        return self.finish(report, parsed_args)

    def columns_of(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """The columns that the operator can select."""
        return self.column_names

    def check_arguments(self, parsed_args: argparse.Namespace) -> None:
        """Exit with a usage error, or read the files that the arguments name."""

    def check_recording(self, parsed_args: argparse.Namespace) -> None:
        """Refuse to change a live Placement from a recording of nova."""
        recording = parsed_args.nova_recording
        if recording is None or parsed_args.dry_run or self._database() is not None:
            return
        if RECORDED_NOVA not in parsed_args.allow:
            raise errors.PlacementError(
                f"--os-nova-recording {recording}: servers may have changed since nova's responses"
                " were recorded; nothing was changed. Read nova itself (without"
                " --os-nova-recording), rehearse on a database file"
                " (--os-placement-database), or --allow"
                f" {RECORDED_NOVA}"
            )

    def features(self, parsed_args: argparse.Namespace) -> Sequence[tuple[str, str]]:
        """``(feature, option)`` that the command line requires."""
        return []

    def plan(self, run: CommandRun, parsed_args: argparse.Namespace) -> ObservedPlan:
        """Read the cloud and plan the changes."""
        raise NotImplementedError

    def execute(self, run: CommandRun, parsed_args: argparse.Namespace) -> result.RunReport:
        """Plan the changes and apply them."""
        from osc_placement.plan import apply, removal_limit

        planned = self.plan(run, parsed_args)
        if self.limits_capacity and parsed_args.max_percent is not None:
            planned = dataclasses.replace(planned, plan=removal_limit.with_capacity(planned.plan))
        planned = planned.stamped(
            run.client,
            self.command_line(parsed_args),
            allow=parsed_args.allow,
            max_percent=parsed_args.max_percent,
        )
        return apply.apply_plan(run.client, planned, self.apply_options(run, parsed_args))

    def apply_options(self, run: CommandRun, parsed_args: argparse.Namespace) -> apply.Options:
        """The options of the plan engine."""
        from osc_placement.plan import apply, executor

        return apply.Options(
            dry_run=parsed_args.dry_run,
            allow=tuple(parsed_args.allow),
            plan_out=parsed_args.plan_out,
            undo_out=parsed_args.undo_out,
            limits=executor.RunLimits(
                workers=parsed_args.workers,
                max_count=parsed_args.max_count,
                stop_on_error=parsed_args.on_error == "stop",
            ),
            progress=run.context.progress,
            **(run.services.apply_options() if self.uses_nova else {}),
        )

    def finish(self, report: result.RunReport, parsed_args: argparse.Namespace) -> base.Rows:
        """Columns and rows of the result; sets the exit code and the summary on stderr."""
        self.exit_code = report.exit_code(detailed=parsed_args.detailed_exitcode)
        self.summary = _summary(report, self._to_continue(report, parsed_args))
        return rows.COLUMNS, rows.ResultRows(report.results, report.names)

    def _to_continue(self, report: result.RunReport, parsed_args: argparse.Namespace) -> str:
        """The command that makes the remaining changes, with the limits of this one."""
        if not report.command and not report.plan_path:
            return "run the same command again"
        repeated = self.repeated_options(parsed_args, _REPEATED)
        if report.plan_path is not None:
            verb = "undo" if report.undoes else "apply"
            return plan_command(verb, report.plan_path, repeated)
        # A plan of absolute values needs no file: the same command finds what is left.
        return f"openstack {self.command_line(parsed_args, repeated)}"

    def repeated_options(
        self, parsed_args: argparse.Namespace, names: Collection[str]
    ) -> list[lines.Option]:
        """The options of these names, and the recording."""
        repeated = [action for action in self.own_arguments if action.dest in names]
        _, options = arguments.typed(parsed_args, repeated)
        return [*options, *self.recording_options()]

    def command_line(
        self, parsed_args: argparse.Namespace, more: Iterable[lines.Option] = ()
    ) -> str:
        """The command line that the plan file records, without limits and overridden guards.

        ``more`` are options that it gets besides. It has no ``openstack``.
        """
        recorded = [
            action
            for action in self.own_arguments
            if action.dest != "allow" and not help_text.is_shared(action)
        ]
        subjects, options = arguments.typed(parsed_args, recorded)
        selected = self.selected_words()
        words = lines.words([*subjects, *selected[0]], [*options, *selected[1], *more])
        return " ".join([*(self.cmd_name or "").split(), *map(lines.quote, words)])

    def selected_words(self) -> tuple[Sequence[str], Sequence[lines.Option]]:
        """The providers and the options of a SELECTOR, if the command has one."""
        return (), ()

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """Print the rows, with --rows changed without those of unchanged items."""
        if self._prints_plan(parsed_args):
            self._print_summary()
            return 0
        if parsed_args.rows == "changed" and "status" in column_names:
            at = column_names.index("status")
            data = [row for row in data if row[at] != "unchanged"]
        return super().produce_output(parsed_args, column_names, data)

    def answer_tables(self, column_names: Sequence[str], data: Any) -> Sequence[tables.Table]:
        """The tables of the answer, on a terminal their first rows; empty for one of all rows."""
        several = self.answer
        if self._arguments.rows != "first" or not tables.is_terminal():
            return several
        if not several and len(data) > tables.MOST_ROWS:
            several = [tables.Table.of("", self.table_columns, column_names, data)]
        shown = [tables.first_rows(table) for table in several]
        count, total = (sum(len(table.rows) for table in answer) for answer in (shown, several))
        if count < total:
            line = f"{count} of {counted(total, 'row')}: --rows all, or -f json"
            self.summary = [*self.summary, line]
        return shown

    def add_change_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the options of every changing command."""
        group = parser.add_argument_group(help_text.CHANGE)
        arguments.add_flag(group, "--dry-run", "Show the planned changes; change nothing")
        arguments.add_flag(
            group,
            "--detailed-exitcode",
            "With --dry-run: exit with 3 for changes to make, and with 6 for refused changes",
        )
        if self.makes_plan:
            arguments.add_file(
                group,
                "--plan-out",
                'Write the plan to this file, for "placement plan show", "apply" and "undo".'
                " With --dry-run, - is standard output, in place of the rows.",
            )
        if not self.undoes:
            arguments.add_file(
                group,
                "--undo-out",
                "Write the plan that undoes the changes to this file (default: a file in"
                " $XDG_STATE_HOME/osc-placement)",
            )
        arguments.add_count(group, "--max-count", "Make at most this many changes")
        group.add_argument(
            "--on-error",
            choices=("continue", "stop"),
            default="continue",
            help="Whether to start further changes after a failure (default: continue)",
        )
        add_log_json(group)
        if self.guards:
            self.add_allow(parser.add_argument_group("what to allow"))

    def add_allow(self, group: argparse._ActionsContainer) -> None:
        """Add ``--allow``, and ``--max-percent`` where the guard is the limit of removals."""
        super().add_allow(group)
        default = (
            f"{MAX_PERCENT}, or up to {SMALL} objects that are not more than half of all"
            if self.has_default_limit
            else "no limit"
        )
        if self.makes_plan and MANY in self.guards:
            arguments.add_max_percent(group, self.limited, default)


def add_log_json(group: argparse._ActionsContainer) -> None:
    """Add ``--log-json``."""
    arguments.add_file(
        group,
        "--log-json",
        "Add one line of JSON for each change and each retry to this file",
    )


class SelectorCommand(PlanCommand):
    """A changing command with a SELECTOR of providers."""

    selected: Selector

    def check_arguments(self, parsed_args: argparse.Namespace) -> None:
        # Once: standard input can be read only once.
        self.selected = arguments.read_selector(parsed_args)

    def features(self, parsed_args: argparse.Namespace) -> Sequence[tuple[str, str]]:
        return list(arguments.selector_features(parsed_args))

    def selected_words(self) -> tuple[Sequence[str], Sequence[lines.Option]]:
        return self.selected.providers, self.selected.options()


def undo_command(path: pathlib.Path | str) -> str:
    """The line that shows how to undo a run."""
    return f"To undo: {plan_command('undo', path)}"


def _summary(report: result.RunReport, to_continue: str) -> list[str]:
    """Target, counts and notes of a run, and the commands that continue and undo it."""
    text = [f"On {report.target}: {'; '.join([report.summary(), *report.effects])}"]
    if report.planned_effects:
        text.append(f"Planned: {'; '.join(report.planned_effects)}")
    text += [f"Note: {note}" for note in report.notes]
    if report.halted:
        text.append(f"Stopped: {report.halted}")
    if report.leaves_changes:
        text.append(f"Changes are left. To continue: {to_continue}")
    elif report.plan_path:
        text.append(f"Plan: {report.plan_path}")
    if report.undo_path:
        text.append(undo_command(report.undo_path))
    return text


def plan_command(verb: str, path: pathlib.Path | str, options: Iterable[lines.Option] = ()) -> str:
    """The command line that applies or undoes a plan file."""
    return lines.line(f"placement plan {verb}", str(path), options=options)
