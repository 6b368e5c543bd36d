# SPDX-License-Identifier: Apache-2.0
"""``placement migration list | run``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from osc_placement.model import command_line
from osc_placement.plan.guards import MANY, RECORDED_NOVA
from osc_placement.v1.common import arguments, base, plan_command, services
from osc_placement.v1.output import progress, tables


class ListMigrations(base.ReportLister):
    """List the online data migrations, in the order in which they run

    "migration run --migration" runs those that do not run by default. No cloud is needed.
    """

    auth_required = False
    example = "openstack placement migration list"

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        from osc_placement.workflows.repair.migrations import registry

        migrations = registry.MIGRATIONS
        columns = ("migration", "description", "by_default")
        return columns, [(item.name, item.description, item.by_default) for item in migrations]


class RunMigrations(plan_command.PlanCommand):
    """Run the online data migrations in batches, while the cloud is in use

    Shows, as nova-manage does, how many objects each migration found and changed. A run that
    was limited or interrupted continues when the command is run again: a file for each cloud in
    $XDG_STATE_HOME/osc-placement records its position, and finished work is never repeated.
    Each batch can be undone.
    """

    guards = (MANY, RECORDED_NOVA)
    required_feature = "aggregate generation"
    exit_codes = {
        0: "a complete pass found nothing to change, or a dry run",
        1: "changes were made and more may be left (with --max-count), or an error occurred",
        2: "some changes failed, or the command line is wrong",
        127: "the value of an option is invalid",
    }
    example = """\
openstack placement migration run --dry-run
openstack placement migration run
openstack placement migration run --max-count 50
openstack placement migration run --migration complete_consumers"""

    column_names = table_columns = ("migration", "found", "done")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_repeated(
            parser,
            "--migration",
            "<migration>",
            'Only this migration ("migration list" shows them).',
        )
        arguments.add_flag(
            parser, "--dry-run", "Count the changes of each migration; change nothing"
        )
        plan_command.add_log_json(parser)
        parser.add_argument(
            "--max-count",
            metavar="<count>",
            type=int,
            help="Make at most this many changes; run the command again while it exits with 1",
        )
        self.add_allow(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        from osc_placement.workflows.repair.migrations import registry

        invalid = _invalid(parsed_args, [item.name for item in registry.MIGRATIONS])
        if invalid:
            self.exit_code = registry.RunEnd.BAD_VALUE
            self.summary = [invalid]
            return self.column_names, []
        self.check_recording(parsed_args)
        client = self.connect()
        cloud = services.NovaServices(self)
        selected = registry.selected(parsed_args.migration)
        if any(item.reads_nova for item in selected):
            # Without nova the whole run fails, before the first write.
            _ = cloud.nova, cloud.neutron
        with progress.shown(
            quiet=self.is_quiet, log=parsed_args.log_json, command=self.cmd_name or ""
        ) as shown:
            result = registry.run(
                registry.CloudServices(
                    client, cloud, services.read_context(self, parsed_args.workers, shown)
                ),
                self.cmd_name or "",
                selected,
                max_count=parsed_args.max_count,
                dry_run=parsed_args.dry_run,
                allow=parsed_args.allow,
                max_percent=parsed_args.max_percent,
            )
        self.exit_code = result.exit_code
        problems = [("failed", text) for text in result.failures]
        problems += [("note", text) for text in result.notes]
        undo = [*map(plan_command.undo_command, result.undo)]
        if result.incomplete:
            undo.append(f"Changes are left. To continue: {self._command_again(parsed_args)}")
        is_table = parsed_args.formatter == "table" and not parsed_args.columns
        details = [] if is_table else [f"{kind.capitalize()}: {text}" for kind, text in problems]
        self.summary = [f"On {client.target}: {result.done} done", *details, *undo]
        data = [
            (name, count.found, count.done)
            for name, count in result.counts.items()
            if count.found or parsed_args.rows != "changed"
        ]
        reasons = [(kind, *_migration_and_reason(text)) for kind, text in problems]
        self.answer = [
            tables.Table("Migrations", self.column_names, data),
            tables.Table("Problems", ("kind", "migration", "reason"), reasons),
        ]
        return self.column_names, data

    def _command_again(self, parsed_args: argparse.Namespace) -> str:
        names = ("migration", "max_count", "max_percent", "allow")
        options = self.repeated_options(parsed_args, names)
        return command_line.line(self.cmd_name or "", options=options)


def _migration_and_reason(text: str) -> tuple[str, str]:
    """The parts of ``migration: reason``; a note about the run has no migration."""
    name, colon, reason = text.partition(": ")
    return (name, reason) if colon and " " not in name else ("", text)


def _invalid(parsed_args: argparse.Namespace, migrations: Sequence[str]) -> str:
    """Why a value of an argument is invalid; empty if all are valid."""
    if parsed_args.max_count is not None and parsed_args.max_count < 1:
        return "--max-count must be at least 1"
    unknown = [item for item in parsed_args.migration if item not in migrations]
    return f"unknown migration {', '.join(unknown)}: use {', '.join(migrations)}" if unknown else ""
