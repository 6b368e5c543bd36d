# SPDX-License-Identifier: Apache-2.0
"""``placement plan show | apply | undo | list``."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import functools
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from osc_placement.model import command_line
from osc_placement.plan.guards import ALL, RECORDED_NOVA
from osc_placement.v1.common import arguments, base, plan_command, services
from osc_placement.v1.output import rows, tables

if TYPE_CHECKING:
    from osc_placement.plan import apply, journal, plan, result
    from osc_placement.workflows.health import impact


#: The values of ``plan show --fail-on``.
_EFFECTS = ("flavor-lost", "one-host", "stranded")


#: The id of a plan, or its beginning.
_ID = re.compile("[0-9a-f]{4,32}")


class ShowPlan(base.MarkdownPage, plan_command.PlanCommand):
    """Show the changes of a plan file, or what they mean for flavors and servers

    Reads only the file: no cloud is needed. The table output has three tables: the changes,
    the items without a change, and the capacity of each resource class before and after.
    A line below names how many allocations, inventories, traits, aggregate memberships and
    providers the plan removes.

    --impact applies the plan to a copy of the cloud, or of a snapshot with nova's responses. It
    shows for each flavor on how many hosts and how often it fits before and after, and the
    servers that their hosts could not take again. The effect is lost if the flavor fits nowhere
    any more, one-host if only one host is left. -f markdown is a page for a merge request.
    """

    writes = False
    auth_required = False

    exit_codes = {
        **base.EXIT_CODES,
        3: "with --fail-on: the plan has this effect",
        services.NOT_CHECKED: "with --fail-on: unknown: something was not counted or applied",
    }
    example = """\
openstack placement plan show ratios.json
openstack --os-placement-database cloud.sqlite placement plan show \\
    ratios.json --impact --fail-on flavor-lost"""

    _plan: plan.Plan
    _impact_of: impact.Impact | None = None
    table_columns: Sequence[str] = ()

    def markdown(self) -> Iterable[str]:
        """The page for a merge request."""
        from osc_placement.v1.plan import plan_page

        return plan_page.page(self._plan, self._impact_of)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_file(parser, "file", "The plan file")
        arguments.add_flag(
            parser,
            "--impact",
            "Show flavors and servers after the plan, on a copy of the cloud",
        )
        arguments.add_repeated(
            parser,
            "--fail-on",
            "<effect>",
            "With --impact: exit with 3 if a flavor fits nowhere any more (flavor-lost), on"
            " one host only (one-host), or if a server is stranded.",
            choices=_EFFECTS,
        )
        services.add_nova_conf(parser)

    def columns_of(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """The columns; with --impact the rows are flavors."""
        names = (*_IMPACT_COLUMNS, "not_checked")
        return names if parsed_args.impact else super().columns_of(parsed_args)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        from osc_placement.plan import file, removal_limit, result

        for option in ("--fail-on", "--nova-conf"):
            if getattr(parsed_args, option[2:].replace("-", "_")) and not parsed_args.impact:
                self.usage_error(f"{option} requires --impact")
        self._plan = plan = file.read(parsed_args.file)
        removed = removal_limit.summary(plan)
        self.summary = [
            f"Plan of {plan.created}: {command_line.brief(plan.command)}",
            f"For {_target(plan)}: {plan.summary()}",
            *([f"Removes {removed}"] if removed else []),
            *(f"Note: {note}" for note in plan.notes),
            f"Digest: {plan.digest}",
        ]
        if parsed_args.impact:
            shown = self._impact(parsed_args)
            columns = {
                **_IMPACT_COLUMNS,
                "stranded": lambda item: _stranded(item) if shown.knows_stranded else None,
                "not_checked": lambda item: rows.lines(shown.open_of(item)),
            }
            return rows.listing(columns, shown.flavors)
        results = result.of_plan(plan)
        if parsed_args.formatter == "table" and not parsed_args.columns:
            self.answer = self._tables(results)
        return rows.COLUMNS, rows.ResultRows(results, plan.names)

    def _impact(self, parsed_args: argparse.Namespace) -> impact.Impact:
        from osc_placement.workflows.health import impact

        if not self.is_local:
            services.authenticate(self.app, "applies the plan to a copy of the cloud")
            self.auth_required = True
        nova, options = services.NovaServices(self).nova, services.options_of(parsed_args.nova_conf)
        with self.reading() as context:
            shown = impact.impact(
                self.connect(), nova, self._plan, parsed_args.file, context, options
            )
        self._impact_of = shown
        if any(shown.harm[effect] for effect in parsed_args.fail_on):
            self.exit_code = 3
        elif parsed_args.fail_on and shown.is_open:
            self.exit_code = services.NOT_CHECKED
        self.summary = [
            *self.summary,
            shown.harm_texts(),
            *(f"{kind.capitalize()}: {text}" for kind, text in shown.remarks),
        ]
        self.table_columns = tuple(name for name in _IMPACT_COLUMNS if name not in _NOT_IN_TABLES)
        return shown

    def _tables(self, results: Sequence[result.ChangeResult]) -> Sequence[tables.Table]:
        """Changes, items without a change, and capacity."""
        from osc_placement.plan import result

        names = self._plan.names
        planned = [item for item in results if item.status is result.Status.PLANNED]
        others = [item for item in results if item.status is not result.Status.PLANNED]
        changes, rest = rows.ResultRows(planned, names), rows.ResultRows(others, names)
        capacities = [
            (name, capacity.before, capacity.after, capacity.over)
            for name, capacity in self._plan.capacities.items()
        ]
        return [
            tables.Table.of("Changes", ("name", "before", "after"), rows.COLUMNS, changes),
            tables.Table.of("No change", ("name", "status", "reason"), rows.COLUMNS, rest),
            tables.Table(
                "Capacity",
                ("resource class", "before", "after", "providers over capacity"),
                capacities,
            ),
        ]


_NOT_IN_TABLES = ("id", "exact", "refused", "n_minus_1", "not_counted")


def _stranded(item: impact.FlavorImpact) -> rows.Cell:
    return rows.lines(server.name or server.uuid for server in item.stranded)


_IMPACT_COLUMNS: rows.Columns[impact.FlavorImpact] = {
    "flavor": lambda item: item.name,
    "id": lambda item: item.id,
    "hosts_before": lambda item: item.before.hosts,
    "hosts_after": lambda item: item.after.hosts,
    "fits_before": lambda item: item.before.fits,
    "fits_after": lambda item: item.after.fits,
    "exact": lambda item: item.before.is_exact and item.after.is_exact,
    "effect": lambda item: item.effect,
    "stranded": _stranded,
    "refused": lambda item: item.refused,
    "n_minus_1": lambda item: item.n_minus_1,
    "not_counted": lambda item: rows.lines(services.not_counted_rows(item.not_counted)),
}


class _PlanFileCommand(plan_command.PlanCommand):
    """A command that runs a plan file."""

    makes_plan = False
    guards = (*ALL, RECORDED_NOVA)
    file_text = "The plan file"
    file_metavar = "<file>"

    _plan: plan.Plan

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_file(parser, "file", self.file_text, self.file_metavar)
        self.add_change_options(parser)

    def check_arguments(self, parsed_args: argparse.Namespace) -> None:
        """Read the file. Raises PlanRefused for a plan of another cloud; sends no request."""
        from osc_placement.plan import file, plan

        self._plan = file.read(parsed_args.file)
        client = self.client()
        plan.check_target(self._plan, client.target, client.origin)

    def execute(
        self, run: plan_command.CommandRun, parsed_args: argparse.Namespace
    ) -> result.RunReport:
        from osc_placement.plan import apply, plan

        options = self.apply_options(run, parsed_args)
        if self.undoes:
            return apply.undo_plan(run.client, self._plan, options, parsed_args.file)
        planned = plan.ObservedPlan(self._plan)
        return apply.apply_plan(run.client, planned, options, path=parsed_args.file)

    def apply_options(
        self, run: plan_command.CommandRun, parsed_args: argparse.Namespace
    ) -> apply.Options:
        """Also with neutron for a plan of ports, and with nova if the changes need its servers."""
        from osc_placement.workflows.repair.allocations import preconditions

        options = super().apply_options(run, parsed_args)
        if parsed_args.dry_run:
            from osc_placement.workflows.cloud import rehearsal

            copy = functools.partial(rehearsal.concerned, run.client, run.context)
            options = dataclasses.replace(options, copy=copy)
        if self._plan.needs_neutron:
            options = dataclasses.replace(options, neutron=run.services.neutron)
        if self._plan.has_preconditions and not self.undoes:
            check = preconditions.preconditions_of_plan(run.services.nova, self._plan.created)
            options = dataclasses.replace(options, check_precondition=check)
        return options


class ApplyPlan(_PlanFileCommand):
    """Apply a plan file, or continue an interrupted run of it

    Items that changed after the plan was made are stale and are not changed. For changes
    that depend on nova's servers, hosts or host aggregates the command reads nova, and neutron
    for ports. A dry run runs the plan on a copy, with the rows and the exit code of the run; only
    a write shows whether a policy of your own lets this user write. A journal on disk records the
    changes that were made: after a crash, run the same command again.
    """

    example = """\
openstack resource provider inventory amend \\
    --resource VCPU:allocation_ratio=4 \\
    --member-of <aggregate> --dry-run --plan-out ratios.json
openstack placement plan apply ratios.json"""


class UndoPlan(_PlanFileCommand):
    """Undo the applied changes of a plan

    The argument is a plan file, the file that --undo-out wrote, or an id of placement plan
    list. Items that changed after the plan was applied are stale and are not changed. To make
    the changes again, apply the plan again.
    """

    undoes = True
    file_text = "The plan file, the file of --undo-out, or the id of a plan"
    file_metavar = "<file-or-id>"
    example = """\
openstack placement plan list
openstack placement plan undo 3a5c7e91
openstack placement plan undo ratios.json"""

    def check_arguments(self, parsed_args: argparse.Namespace) -> None:
        """Find the file of an id. Errors: PlanRefused."""
        from osc_placement.plan import journal

        name = parsed_args.file
        if _ID.fullmatch(str(name)) and not name.exists():
            parsed_args.file = journal.undo_file_of(str(name), str(self.client().target))
        super().check_arguments(parsed_args)


def _target(plan: plan.Plan) -> str:
    """What a plan was made for, and the cloud of a snapshot."""
    return f"{plan.target} (a snapshot of {plan.origin})" if plan.origin else plan.target


class ListPlans(base.ReportLister):
    """List the plans that were applied or undone, the newest first

    For all clouds, from the journals of this user on this machine, in
    $XDG_STATE_HOME/osc-placement. A colleague has another list: plan undo takes the file of
    his --undo-out. The id is the start of the plan's digest, and is in the names of its files.
    The status is running, unfinished (changes are left after a limit, a failure or an
    interruption), continued (a later run of the same command made them), applied, undone, or
    "nothing applied". to_continue and to_undo are the commands that continue and undo the plan.
    A plan that was only written, with --dry-run --plan-out, is not listed.
    """

    auth_required = False
    table_columns = ("id", "created", "status", "undoable", "target", "command")
    example = """\
openstack placement plan list
openstack placement plan list -f value -c to_continue --status unfinished"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--status",
            choices=("running", "unfinished", "continued", "applied", "undone"),
            help="Only plans with this status",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        from osc_placement.plan import journal

        wanted = parsed_args.status
        plans = journal.read_all()
        for error in plans.errors:
            self.log.warning("%s", error)
        records = [item for item in plans.found if wanted in (None, str(item.status))]
        if not records:
            status = f" with the status {wanted}" if wanted else ""
            self.summary = [f"No plan of this user on this machine{status} ({_folder()})"]
        elif parsed_args.formatter == "table" and not parsed_args.columns:
            self.summary = self._summary(records)
        return rows.listing(_COLUMNS, records)

    def _summary(self, records: Sequence[journal.Record]) -> list[str]:
        """What to do with the plans, and what the table does not show."""
        undoable = [item for item in records if item.undo_file is not None]
        hidden = [name for name in _COLUMNS if name not in self.table_columns]
        return [
            *(f"To continue: {text}" for text in dict.fromkeys(map(_to_continue, records)) if text),
            *(
                f"To undo the newest: {plan_command.plan_command('undo', item.id)}"
                for item in undoable[:1]
            ),
            f"Other columns: {', '.join(hidden)} (-c <column> or -f json)",
            f"Plans of this user on this machine ({_folder()})",
        ]


_COLUMNS: rows.Columns[journal.Record] = {
    "id": lambda item: item.id,
    "created": lambda item: _seconds(item.created),
    "status": lambda item: str(item.status),
    "undoable": lambda item: item.undo_file is not None,
    "target": lambda item: item.target,
    "command": lambda item: rows.Cell(item.command, [command_line.brief(item.command)]),
    "changes": lambda item: item.changes,
    "applied": lambda item: item.applied,
    "undone": lambda item: item.undone,
    "to_continue": lambda item: _to_continue(item),
    "to_undo": lambda item: _to_undo(item),
}


def _folder() -> str:
    """The folder of the journals."""
    from osc_placement.plan import file

    return str(file.state_directory())


def _to_undo(item: journal.Record) -> str:
    """The command that undoes a plan; empty if there is nothing to undo, or no file."""
    path = item.undo_file
    return "" if path is None else plan_command.plan_command("undo", path)


def _to_continue(item: journal.Record) -> str:
    """The command that continues an unfinished plan; empty for others."""
    from osc_placement.plan import journal

    if item.status is not journal.PlanStatus.UNFINISHED:
        return ""
    path = item.undo if item.is_undo else item.plan
    if path is None:
        # A plan of absolute values needs no file: the same command finds what is left.
        return f"openstack {item.command}"
    return plan_command.plan_command("undo" if item.is_undo else "apply", path)


def _seconds(created: str) -> str:
    return datetime.datetime.fromisoformat(created).isoformat(timespec="seconds")
