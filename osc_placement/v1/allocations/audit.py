"""``placement allocation audit``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from osc_placement.plan import guards as plan_guards
from osc_placement.v1 import audit_command, plan_command, services
from osc_placement.v1.options import arguments

if TYPE_CHECKING:
    from osc_placement.plan.plan import ObservedPlan

#: Nova's own last steps of a move or a deletion take seconds.
_MIN_AGE = 60


class AuditAllocations(audit_command.AuditCommand):
    """Find allocations that do not match nova's servers, and repair them

    Each finding has a code (see --only), its evidence and a proposed repair; for programs also
    the cause of the code and the proposed action, as codes. The expected
    allocations of a moving server depend on the phase of its move. The code is unknown if a
    deviation may be correct, if its repair is not certain, or if the consumer may belong to
    another service.

    --repair makes the proposed repairs. Each write replaces all allocations of one consumer
    under its generation, so that concurrent changes are never overwritten, and nova is read
    again just before it. Unknown findings and providers are never changed; the proposal
    describes what the operator can do. Nothing is changed if the repairs would remove more than
    --max-percent of all allocations: a policy that hides servers makes them look orphaned.
    """

    required_feature = "consumer generation"
    exit_codes = {
        **audit_command.EXIT_CODES,
        6: "some repairs failed, or all were refused (see --max-percent)",
        7: "some consumers are stale: they changed after they were read",
    }
    guards = (plan_guards.MANY, plan_guards.RECORDED_NOVA)
    limits_removals = True
    example = """\
openstack placement allocation audit
openstack placement allocation audit --repair --only orphaned \\
    --only doubled --dry-run
openstack placement allocation audit --repair --host cmp-0001"""

    uses_nova = True
    recorded_arguments = (
        "repair",
        "host",
        "only",
        "check_owners",
        "skip_port_allocations",
        "min_age",
        "max_percent",
    )

    def codes(self) -> Sequence[str]:
        from osc_placement.workflows.allocations.audit import audit

        return audit.CODES

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("what to audit")
        self.add_audit_options(group)
        group.add_argument(
            "--min-age",
            metavar="<seconds>",
            type=arguments.non_negative,
            default=_MIN_AGE,
            help="Report as unknown what nova changed in the last seconds, and do not repair it"
            f" (default: {_MIN_AGE})",
        )
        services.add_check_owners(group)
        services.add_skip_port_allocations(group)
        self.add_change_options(parser)

    def plan(self, run: plan_command.Run, parsed_args: argparse.Namespace) -> ObservedPlan:
        from osc_placement.workflows.allocations.audit import audit

        request = audit.AuditRequest(
            hosts=frozenset(parsed_args.host),
            min_age=parsed_args.min_age,
            repair=parsed_args.repair,
            only=frozenset(parsed_args.only),
            check_owners=parsed_args.check_owners,
        )
        audited = audit.audit_cloud(
            run.client, run.services.nova, request, run.context, run.services.neutron_for_ports
        )
        self.findings = audited.findings
        return audited.planned
