"""``placement aggregate mirror``."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from typing import Any

from osc_placement.v1 import change, nova, progress


class MirrorAggregates(change.Changing):
    """Make Placement's aggregates agree with nova's host aggregates

    Nova's scheduler asks Placement for availability zones, tenant isolation and the like by
    aggregate, so every compute node must be in the placement aggregates that mirror its
    host's. Nova keeps them so as hosts come and go, but only logs when that fails.

    What a compute node lacks is added. Where it is and should not be is told, and taken
    away with --prune. A provider that is no compute node is never taken out unless it is
    named, and aggregates that are not nova's are not looked at. What stands in the way (a
    host without compute node, a node without provider, a cell that is down) is told of
    with its reason, and stops nothing else.
    """

    required_feature = "aggregate generation"
    exit_codes = {
        **change.EXIT_CODES,
        3: "a dry run with --detailed-exitcode found that they do not agree",
    }
    example = """\
openstack placement aggregate mirror --dry-run
openstack placement aggregate mirror --prune
openstack placement aggregate mirror --host-aggregate az1 \\
    --host cmp-0001 --host cmp-0002"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("what to mirror")
        group.add_argument(
            "--host",
            metavar="<host>",
            action="append",
            default=[],
            help="Only the compute nodes of this host. May be repeated.",
        )
        group.add_argument(
            "--host-aggregate",
            metavar="<aggregate>",
            action="append",
            default=[],
            help="Only this host aggregate: its name, id or UUID. May be repeated.",
        )
        group.add_argument(
            "--prune",
            action="store_true",
            help="Also take compute nodes out of aggregates that their host is not in",
        )
        group.add_argument(
            "--provider",
            metavar="<provider>",
            action="append",
            default=[],
            help="With --prune or --forget: take this provider (name or UUID) out too, though it"
            " is no compute node, as neutron's network segments are. May be repeated.",
        )
        group.add_argument(
            "--forget",
            metavar="<uuid>",
            action="append",
            default=[],
            help="Take compute nodes out of this aggregate, which mirrored a host aggregate that"
            " nova has deleted. Those deleted since the last run are known without it, and"
            " pruned with --prune. May be repeated.",
        )
        nova.add_recording(parser)
        self.add_change_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        from osc_placement.plan import apply, result
        from osc_placement.workflows import context
        from osc_placement.workflows.mirror import observe

        client = self.connect()
        asked = nova.reached(self, parsed_args)
        wish = observe.MirrorRequest(
            hosts=tuple(parsed_args.host),
            host_aggregates=tuple(parsed_args.host_aggregate),
            prune=parsed_args.prune,
            providers=tuple(parsed_args.provider),
            forget=tuple(parsed_args.forget),
        )
        with progress.shown(quiet=self.is_quiet) as watch:
            reading = context.ReadContext(parsed_args.workers, watch)
            mirrored = observe.plan_mirror(client, asked, wish, reading)
            report = apply.carry_out(
                client,
                mirrored.planned,
                f"{self.cmd_name} {' '.join(_words(parsed_args))}",
                change.options(parsed_args, watch),
            )
        answer = self.finish(report, parsed_args)
        if mirrored.stale and parsed_args.dry_run and parsed_args.detailed_exitcode:
            self.exit_code = result.Exit.CHANGES
        return answer

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """A table says it in names of host aggregates, which the reasons hold, not in UUIDs."""
        if parsed_args.formatter == "table":
            parsed_args.columns = parsed_args.columns or ["name", "status", "reason"]
        return super().produce_output(parsed_args, column_names, data)


def _words(parsed_args: argparse.Namespace) -> Iterator[str]:
    """The arguments that say what to mirror, for the plan file to tell."""
    for option in ("host", "host_aggregate", "provider", "forget"):
        for value in getattr(parsed_args, option):
            yield shlex.join([f"--{option.replace('_', '-')}", value])
    if parsed_args.prune:
        yield "--prune"
