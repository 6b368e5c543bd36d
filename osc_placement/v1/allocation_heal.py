"""``placement allocation heal``."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import pathlib
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from osc_placement.model import allocation, name
from osc_placement.v1 import change, nova, progress

if TYPE_CHECKING:
    from osc_placement.workflows.allocations import request as heal_request, scope


class HealAllocations(change.Changing):
    """Give servers that have no allocations those that nova would have made

    For clouds that ran the caching scheduler, and wherever allocations were lost. Each
    server gets what its flavor and its image ask for, on the host that it is on, and its
    project and user; a consumer with a wrong or a placeholder owner gets its server's.
    Nothing is ever taken away: wrong allocations are for the audit.

    What cannot be healed is left alone with its reason, and stops nothing else: a server
    that is moving, is on no host, does not fit, or may use one of several devices, which only
    its host knows. --assign or --strategy decides such a case, and the outcome says so.
    """

    required_feature = "consumer generation"
    exit_codes = {
        **change.EXIT_CODES,
        3: "a dry run with --detailed-exitcode found servers to heal",
        6: "some servers lack allocations and were left alone, or a write failed",
    }
    example = """\
openstack placement allocation heal --dry-run
openstack placement allocation heal --max-count 100
openstack placement allocation heal --host cmp-0001 --strategy spread"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("what to heal")
        for option, metavar, told in (
            ("--instance", "<server>", "Only this server (UUID)"),
            ("--host", "<host>", "Only servers on this host, as nova calls it"),
            ("--host-aggregate", "<aggregate>", "Only servers on hosts of this host aggregate"),
        ):
            group.add_argument(
                option, metavar=metavar, action="append", default=[], help=f"{told}. Repeatable."
            )
        group.add_argument(
            "--check-owners",
            action="store_true",
            help="Read every consumer for its project and user, rather than compare sums first",
        )
        group.add_argument(
            "--skip-port-allocations",
            action="store_true",
            help="Do not ask neutron for ports with resource requests, and leave these as they are",
        )
        group = parser.add_argument_group("how to heal")
        group.add_argument(
            "--consumer-type",
            metavar="<type>",
            type=_consumer_type,
            default=None,
            help="The type of new consumers (default: INSTANCE, from Placement API 1.38 on)",
        )
        group.add_argument(
            "--strategy",
            choices=("pack", "spread"),
            help="Where several devices may be a server's: guess the fullest, or the emptiest",
        )
        group.add_argument(
            "--assign",
            metavar="<file>",
            type=pathlib.Path,
            help='Which providers servers use: {"<server>": ["<provider>", ...]} in JSON',
        )
        nova.add_recording(parser)
        self.add_change_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        from osc_placement.plan import apply
        from osc_placement.plan.kinds import bound_ports
        from osc_placement.workflows import context
        from osc_placement.workflows.allocations import precondition, scope
        from osc_placement.workflows.allocations.heal import observe

        typed = [("consumer types", "--consumer-type")] if parsed_args.consumer_type else []
        client = self.connect(typed)
        asked = nova.reached(self, parsed_args)
        started = datetime.datetime.now(datetime.UTC)
        within = scope.from_options(
            asked,
            hosts=parsed_args.host,
            host_aggregates=parsed_args.host_aggregate,
            servers=parsed_args.instance,
        )
        request = _request(parsed_args, within)
        with progress.shown(quiet=self.is_quiet) as watch:
            reading = context.ReadContext(parsed_args.workers, watch)
            ports = None if parsed_args.skip_port_allocations else nova.ports(asked, self)
            planned = observe.plan_healing(
                client,
                asked,
                request,
                reading,
                neutron=ports,
            )
            how = dataclasses.replace(
                change.options(parsed_args, watch),
                broken=precondition.NovaPreconditions(asked, started),
                kinds=bound_ports.kinds(ports),
            )
            line = f"{self.cmd_name} {' '.join(_words(parsed_args))}"
            report = apply.carry_out(client, planned, line, how)
        return self.finish(report, parsed_args)

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """A table says what a server gets in the reason, which has names, not UUIDs."""
        if parsed_args.formatter == "table":
            parsed_args.columns = parsed_args.columns or ["name", "status", "reason"]
        return super().produce_output(parsed_args, column_names, data)


def _consumer_type(text: str) -> str:
    """An argparse type: Placement would refuse another, at each server anew."""
    if not name.is_symbol(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no type: A to Z, 0 to 9 and _")
    return text


def _request(parsed_args: argparse.Namespace, within: scope.Scope) -> heal_request.HealRequest:
    from osc_placement.workflows.allocations import request as heal_request
    from osc_placement.workflows.allocations.heal import assignment_file

    assigned = assignment_file.read(parsed_args.assign) if parsed_args.assign else {}
    return heal_request.HealRequest(
        within,
        parsed_args.consumer_type or allocation.INSTANCE,
        heal_request.HealOptions(parsed_args.strategy, assigned),
        check_owners=parsed_args.check_owners,
    )


def _words(parsed_args: argparse.Namespace) -> Iterator[str]:
    """The arguments that say what to heal and how, for the plan file to tell."""
    for option in ("instance", "host", "host_aggregate"):
        for value in getattr(parsed_args, option):
            yield shlex.join([f"--{option.replace('_', '-')}", value])
    for option in ("consumer_type", "strategy", "assign"):
        value = getattr(parsed_args, option)
        if value is not None:
            yield shlex.join([f"--{option.replace('_', '-')}", str(value)])
    for option in ("check_owners", "skip_port_allocations"):
        if getattr(parsed_args, option):
            yield f"--{option.replace('_', '-')}"
