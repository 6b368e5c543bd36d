"""``placement plan show | apply | undo``."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from typing import TYPE_CHECKING, Any, ClassVar

from osc_placement.plan import guards as plan_guards
from osc_placement.v1 import base, change, nova, progress

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.plan import apply, plan


class ShowPlan(change.Changing):
    """Show what a plan file would do

    Reads the file and nothing else: no cloud is needed.
    """

    exit_codes = base.EXIT_CODES
    example = "openstack placement plan show ratios.json"

    @property
    def auth_required(self) -> bool:
        """Nobody is asked."""
        return False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_file(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        from osc_placement.plan import file, result

        made = file.read(parsed_args.file)
        self.tell(
            [
                f"Plan of {made.created}: {made.command}",
                f"For {made.target}: {made.summary()}",
                *(f"Note: {note}" for note in made.notes),
                f"Digest: {made.digest}",
            ]
        )
        return change.COLUMNS, change.outcome_rows(result.of_plan(made), made.names)


class _OfFile(change.Changing):
    guards = plan_guards.ALL

    #: Whether what the plan builds on must still be so.
    judges: ClassVar[bool] = True

    def connect_for(self, made: plan.Plan) -> api.Client:
        """The client; a plan of another cloud is refused before any request."""
        from osc_placement.plan import plan

        plan.check_target(made, self.app.client_manager.placement.target)  # type: ignore[attr-defined]
        return self.connect()

    def how(
        self, made: plan.Plan, options: apply.Options, parsed_args: argparse.Namespace
    ) -> apply.Options:
        """The options, with those who answer for nova and neutron where the plan needs them.

        A run that only tells needs neither, and what is taken back builds on nothing of nova's.
        """
        from osc_placement.plan import apply
        from osc_placement.plan.kinds import bound_ports
        from osc_placement.workflows.allocations import precondition

        premises = self.judges and apply.has_premises(made)
        ports = apply.needs_network(made)
        if options.dry_run or not (premises or ports):
            return options
        asked = nova.reached(self, parsed_args)
        return dataclasses.replace(
            options,
            broken=precondition.eyes(asked, made.created) if premises else None,
            kinds=bound_ports.kinds(nova.ports(asked, self) if ports else None),
        )


class ApplyPlan(_OfFile):
    """Apply exactly what a plan file says, or go on where an earlier run stopped

    What somebody else has changed since the plan was made is stale and left alone, and so is
    what builds on a server that nova has changed since: nova is asked for these, and neutron
    for their ports. A journal on disk knows what was done: after a crash, run the same command
    again.
    """

    example = """\
openstack resource provider inventory amend \\
    --resource VCPU:allocation_ratio=4 \\
    --member-of <aggregate> --dry-run --plan-out ratios.json
openstack placement plan apply ratios.json"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_file(parser)
        parser.add_argument(
            "--restart",
            action="store_true",
            help="Forget what earlier runs have done: for a cloud or a file that was put back",
        )
        nova.add_recording(parser)
        self.add_change_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        from osc_placement.plan import apply, file

        made = file.read(parsed_args.file)
        client = self.connect_for(made)
        with progress.shown(quiet=self.is_quiet) as watch:
            how = self.how(made, change.options(parsed_args, watch), parsed_args)
            report = apply.apply(client, made, parsed_args.file, how, restart=parsed_args.restart)
        return self.finish(report, parsed_args)


class UndoPlan(_OfFile):
    """Take back what was applied of a plan

    The file is a plan, or what --undo-out has written. Exactly what was changed is given
    back; what somebody else has changed since is stale and left alone. To do it again, apply
    the plan again.
    """

    has_undo = False
    judges = False
    example = "openstack placement plan undo ratios.json"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_file(parser)
        nova.add_recording(parser)
        self.add_change_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        from osc_placement.plan import apply, file

        made = file.read(parsed_args.file)
        client = self.connect_for(made)
        with progress.shown(quiet=self.is_quiet) as watch:
            how = self.how(made, change.options(parsed_args, watch), parsed_args)
            report = apply.take_back(client, made, parsed_args.file, how)
        return self.finish(report, parsed_args)


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="<file>", type=pathlib.Path, help="The plan file")
