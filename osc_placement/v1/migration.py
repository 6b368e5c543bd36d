"""``placement migration list | run``."""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Sequence
from typing import Any, ClassVar

from osc_placement.v1 import base, change, nova, progress


class ListMigrations(base.Lister):
    """List the online data migrations that there are

    They are run in this order. No cloud is needed.
    """

    example = "openstack placement migration list"

    @property
    def auth_required(self) -> bool:
        """Nobody is asked."""
        return False

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        from osc_placement.workflows.migrations import registry

        known = registry.MIGRATIONS
        return ("migration", "description"), [(item.name, item.description) for item in known]


class RunMigrations(change.Changing):
    """Run the online data migrations in batches, while the cloud is in use

    Shows, as nova-manage does, for each migration how much it found to do and how much it
    has done. What is done already is never done again, so that a run that was limited or
    killed goes on when it is started again; where the last one stopped is remembered in a
    small file. Each batch tells how to take it back.
    """

    required_feature = "aggregate generation"
    exit_codes = {
        0: "a full pass from the start did nothing",
        1: "something was done and more may be left (with --max-count), or an error",
        2: "some could not be done; or the command line is wrong",
        127: "a value makes no sense",
    }
    example = """\
openstack placement migration run
openstack placement migration run --max-count 50"""

    column_names: ClassVar[Sequence[str]] = ("migration", "found", "done")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--max-count",
            metavar="<count>",
            type=int,
            help="Change exactly so many things, if there are so many; run again while it"
            " exits with 1",
        )
        parser.add_argument(
            "--cursor",
            metavar="<file>",
            type=pathlib.Path,
            help="Where to remember how far the run has come (by default a file for each cloud in"
            " $XDG_STATE_HOME/osc-placement). Without the file a run begins at the start.",
        )
        change.add_workers(parser)
        nova.add_recording(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        from osc_placement.workflows import context
        from osc_placement.workflows.migrations import registry, runner

        columns = tuple(self.column_names)
        if parsed_args.max_count is not None and parsed_args.max_count < 1:
            self.exit_code = runner.Exit.BAD_VALUE
            self.tell(["--max-count must be at least 1"])
            return columns, []
        client = self.connect()
        with progress.shown(quiet=self.is_quiet) as watch:
            asked = nova.reached(self, parsed_args)
            services = runner.Services(
                client,
                asked,
                nova.ports(asked, self),
                context.ReadContext(parsed_args.workers, watch),
            )
            result = runner.run(
                services,
                self.cmd_name or "",
                registry.MIGRATIONS,
                max_count=parsed_args.max_count,
                cursor=parsed_args.cursor,
            )
        self.exit_code = result.exit_code
        self.tell([f"On {client.target}: {result.done} done", *_remarks(result)])
        return columns, [(name, count.found, count.done) for name, count in result.counts.items()]


def _remarks(result: Any) -> list[str]:
    lines = [f"Failed: {text}" for text in result.troubles]
    lines += [f"Note: {text}" for text in result.notes]
    lines += [f"To take it back: openstack placement plan undo {path}" for path in result.undo]
    return lines
