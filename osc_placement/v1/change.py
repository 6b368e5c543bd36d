"""What every changing command of the toolkit shares: its options, its rows, its exit codes."""

from __future__ import annotations

import argparse
import pathlib
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from cliff import columns

from osc_placement import microversion
from osc_placement.plan import guards as plan_guards
from osc_placement.v1 import arguments, base, progress, rows, selector

if TYPE_CHECKING:
    from osc_placement.plan import apply, progress as plan_progress, result
    from osc_placement.workflows import context, selector as batch_selector
    from osc_placement.workflows.batch import plan

COLUMNS = ("name", "uuid", "before", "after", "status", "reason")

EXIT_CODES: Mapping[int, str] = {
    **base.EXIT_CODES,
    0: "done, or nothing to do",
    3: "a dry run with --detailed-exitcode found changes to make",
    5: "the limit of --max-count is reached and changes are left",
    6: "some items failed or were refused",
    7: "some items are stale: somebody else changed them since the plan was made",
    130: "interrupted; what was in flight was finished",
}


class Facts(columns.FormattableColumn[Any]):
    """``{key: value}``; people see ``VCPU:total=4`` or ``no CUSTOM_A``, one fact to a line."""

    def __init__(self, kind: str, facts: Mapping[str, Any], names: Mapping[str, str]) -> None:
        super().__init__(dict(facts))
        self._kind, self._names = kind, names

    def human_readable(self) -> str:
        from osc_placement.plan import change

        return change.describe(self._kind, self._value, "\n", self._names)


class Reasons(columns.FormattableColumn[str]):
    """Reasons with semicolons; people see one to a line."""

    def human_readable(self) -> str:
        return self._value.replace("; ", "\n")


class Changing(base.Lister):
    """A command that plans changes and applies them."""

    default_version: ClassVar[microversion.Microversion] = microversion.MAXIMUM
    exit_codes = EXIT_CODES

    #: The guards that ``--allow`` can override.
    guards: ClassVar[Collection[str]] = ()

    #: Lines for people, who get them when they have seen the rows.
    _said: Sequence[str] = ()

    #: Whether there is a file that takes it back; what undoes is taken back by its plan.
    has_undo: ClassVar[bool] = True

    #: The columns of the rows.
    column_names: ClassVar[Sequence[str]] = COLUMNS

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command; what would spoil its outcome is refused before anything is done."""
        unknown = [text for text in parsed_args.columns if _plain(text) not in self.column_names]
        if unknown:
            known = ", ".join(self.column_names)
            self.usage_error(f"unknown column {', '.join(unknown)}: there are {known}")
        named = _files(parsed_args)
        if len(set(named.values())) < len(named):
            self.usage_error(f"{' and '.join(named)} must be different files")
        return super().run(parsed_args)

    def add_change_options(self, parser: argparse.ArgumentParser) -> None:
        """The options of every changing command."""
        group = parser.add_argument_group("how to change")
        group.add_argument(
            "--dry-run", action="store_true", help="Show what would be done, and do nothing"
        )
        group.add_argument(
            "--detailed-exitcode",
            action="store_true",
            help="With --dry-run: exit with 3 when there is something to do",
        )
        group.add_argument(
            "--plan-out",
            metavar="<file>",
            type=pathlib.Path,
            help='Write the plan to this file, for "placement plan show", "apply" and "undo"',
        )
        if self.has_undo:
            _add_undo_out(group)
        group.add_argument(
            "--max-count",
            metavar="<count>",
            type=arguments.positive,
            help="Change exactly so many, if there are so many",
        )
        add_workers(group)
        group.add_argument(
            "--on-error",
            choices=("continue", "stop"),
            default="continue",
            help="Whether to begin anything more after an item that failed (default: continue)",
        )
        if self.guards:
            group.add_argument(
                "--allow",
                action="append",
                default=[],
                metavar="<guard>",
                choices=sorted(self.guards),
                help="Make changes that this guard refuses. May be repeated. Guards:"
                f" {', '.join(sorted(self.guards))}.",
            )

    def finish(
        self, report: result.RunReport, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], list[Any]]:
        """Columns and rows of the outcome; sets the exit code and tells the rest on stderr."""
        self.exit_code = report.exit_code(detailed=parsed_args.detailed_exitcode)
        self.tell(_remarks(report))
        return COLUMNS, outcome_rows(report.outcomes, report.names)

    def tell(self, lines: Sequence[str]) -> None:
        """Lines for people, on stderr and after the rows; none with -q."""
        self._said = () if self.is_quiet else lines

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """A table leaves UUIDs out unless they are asked for, and keeps to a terminal's width."""
        if parsed_args.formatter == "table":
            parsed_args.columns = parsed_args.columns or [
                name for name in column_names if name != "uuid"
            ]
            parsed_args.fit_width = parsed_args.fit_width or sys.stdout.isatty()
        try:
            code: int = super().produce_output(parsed_args, column_names, data)
            sys.stdout.flush()
        finally:
            sys.stderr.writelines(f"{line}\n" for line in self._said)
        return code

    @property
    def is_quiet(self) -> bool:
        """Whether -q was given."""
        options = getattr(self.app, "options", None)
        return getattr(options, "verbose_level", 1) == 0


class Batch(Changing):
    """A changing command with a SELECTOR."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        from osc_placement.plan import apply
        from osc_placement.workflows import context

        client = self.connect([*selector.features(parsed_args), *self.features(parsed_args)])
        selected = selector.read_selector(parsed_args)
        with progress.shown(quiet=self.is_quiet) as watch:
            reading = context.ReadContext(parsed_args.workers, watch, self._host_aggregates())
            planned = self.planner(parsed_args)(client, selected, reading=reading)
            report = apply.carry_out(
                client, planned, self.line(parsed_args, selected), options(parsed_args, watch)
            )
        return self.finish(report, parsed_args)

    def features(self, parsed_args: argparse.Namespace) -> Sequence[tuple[str, str]]:
        """``(feature, option)`` that the command needs beyond its selector."""
        return []

    def planner(self, parsed_args: argparse.Namespace) -> plan.Planner:
        """What observes and decides, with all that the command line says of the change."""
        raise NotImplementedError

    def asked(self, parsed_args: argparse.Namespace) -> list[str]:
        """The arguments that say what to change, for the plan file to tell."""
        raise NotImplementedError

    def line(self, parsed_args: argparse.Namespace, selected: batch_selector.Selector) -> str:
        """The command line, as a plan file tells it."""
        return f"{self.cmd_name} {shlex.join(self.asked(parsed_args))} {selected}"

    def _host_aggregates(self) -> context.HostAggregates | None:
        if self._embedded():
            return None
        from osc_placement.nova import api

        manager = self.app.client_manager
        return lambda: api.host_aggregates(api.SessionNova(manager.sdk_connection))


def _plain(column: str) -> str:
    """As cliff compares columns."""
    return column.lower().strip().replace(" ", "_")


def _files(parsed_args: argparse.Namespace) -> dict[str, pathlib.Path]:
    """``{what names it: the plan file}`` of those given; no two may take each other's place."""
    names = {"<file>": "file", "--plan-out": "plan_out", "--undo-out": "undo_out"}
    given = {text: getattr(parsed_args, name, None) for text, name in names.items()}
    found = {text: path.resolve() for text, path in given.items() if path is not None}
    return {text: path for text, path in found.items() if path.is_file() or not path.exists()}


def add_workers(group: argparse._ActionsContainer) -> None:
    """Declare ``--workers``."""
    group.add_argument(
        "--workers",
        metavar="<count>",
        type=arguments.positive,
        default=plan_guards.WORKERS,
        help=f"How many requests are under way at once (default: {plan_guards.WORKERS})",
    )


def _add_undo_out(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--undo-out",
        metavar="<file>",
        type=pathlib.Path,
        help="Write what takes the change back to this file (by default to one in"
        " $XDG_STATE_HOME/osc-placement)",
    )


def options(parsed_args: argparse.Namespace, watch: plan_progress.Progress) -> apply.Options:
    """The change options, as the workflows take them."""
    from osc_placement.plan import apply, executor

    return apply.Options(
        dry_run=parsed_args.dry_run,
        allow=tuple(getattr(parsed_args, "allow", ())),
        plan_out=parsed_args.plan_out,
        undo_out=getattr(parsed_args, "undo_out", None),
        limits=executor.Limits(
            workers=parsed_args.workers,
            max_count=parsed_args.max_count,
            stop_on_error=parsed_args.on_error == "stop",
        ),
        watch=watch,
    )


def outcome_rows(
    outcomes: Sequence[result.ChangeResult], names: Mapping[str, str]
) -> list[rows.Row]:
    """The values of COLUMNS; a trait has no UUID. ``names`` are ``{provider uuid: name}``."""
    from osc_placement.plan import change

    return [
        (
            item.subject.name,
            None if item.kind == change.TRAIT else item.subject.uuid,
            Facts(item.kind, item.before, names),
            Facts(item.kind, item.after, names),
            str(item.status),
            Reasons(item.reason),
        )
        for item in outcomes
    ]


def _remarks(report: result.RunReport) -> list[str]:
    """Where it happened, how it ended, and what to do next."""
    lines = [f"On {report.target}: {'; '.join([report.summary(), *report.effects])}"]
    lines += [f"Note: {note}" for note in report.notes]
    if report.halted:
        lines.append(f"Stopped: {report.halted}")
    if report.limited or report.interrupted:
        again = _command("apply", report.plan_path) if report.plan_path else ""
        lines.append(f"There is more to do: {again or 'run the same command again'}")
    elif report.plan_path:
        lines.append(f"Plan: {report.plan_path}")
    if report.undo_path:
        lines.append(f"To take it back: {_command('undo', report.undo_path)}")
    return lines


def _command(verb: str, path: pathlib.Path) -> str:
    return f"openstack placement plan {verb} {shlex.quote(str(path))}"
