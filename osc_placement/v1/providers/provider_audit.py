"""``placement provider audit``."""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from osc_placement.plan import guards as plan_guards
from osc_placement.v1 import audit_command, plan_command

if TYPE_CHECKING:
    from osc_placement.nova.pci import PciConfiguration
    from osc_placement.nova.provider_config import ProviderConfig
    from osc_placement.plan.plan import ObservedPlan


class AuditProviders(audit_command.AuditCommand):
    """Find resource providers that do not match nova's hosts and neutron's agents

    Each finding has a code (see --only), its evidence and a proposal; for programs also the cause
    of the code and the proposed action, as codes. Nothing is reported about hosts of a cell that
    is down.

    --repair makes the repairs that are certain: the trait COMPUTE_STATUS_DISABLED of hosts with a
    compute service of another status, and the trait OWNER_NOVA of compute nodes, if others have
    it. For all other findings the proposal describes what the operator can do.
    """

    required_feature = "provider required traits"
    guards = (plan_guards.RECORDED_NOVA,)
    recorded_arguments = ("repair", "host", "only", "provider_config", "nova_conf")
    example = """\
openstack placement provider audit
openstack placement provider audit --repair --only wrong-status --dry-run
openstack placement provider audit --provider-config \\
    /etc/nova/provider_config/*.yaml"""

    _config: ProviderConfig | None = None
    _pci: PciConfiguration | None = None

    def codes(self) -> Sequence[str]:
        from osc_placement.workflows.providers import audit

        return audit.CODES

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("what to audit")
        self.add_audit_options(group)
        group.add_argument(
            "--provider-config",
            metavar="<file>",
            type=pathlib.Path,
            nargs="+",
            action="extend",
            default=[],
            help="The provider.yaml files of the compute hosts: also report custom inventories and"
            " traits of compute nodes that none of them names",
        )
        group.add_argument(
            "--nova-conf",
            metavar="<file>",
            type=pathlib.Path,
            help="The nova.conf of the compute hosts: also report PCI devices in use that its"
            " [pci]device_spec does not match. Where the hosts differ, run the command once for"
            " each file, with --host.",
        )
        group.add_argument(
            "--skip-agents", action="store_true", help="Do not read neutron's agents"
        )
        self.add_change_options(parser)

    def check_arguments(self, parsed_args: argparse.Namespace) -> None:
        super().check_arguments(parsed_args)
        if parsed_args.provider_config:
            from osc_placement.nova import provider_config

            self._config = provider_config.read(parsed_args.provider_config)
        if parsed_args.nova_conf is not None:
            from osc_placement.nova import pci

            self._pci = pci.read_device_spec(parsed_args.nova_conf)

    def plan(self, run: plan_command.Run, parsed_args: argparse.Namespace) -> ObservedPlan:
        from osc_placement.workflows.providers import audit, observe

        request = observe.ProviderAuditRequest(
            hosts=frozenset(parsed_args.host),
            only=frozenset(parsed_args.only),
            repair=parsed_args.repair,
            config=self._config,
            pci=self._pci,
        )
        neutron = None if parsed_args.skip_agents else run.services.neutron
        audited = audit.audit_providers(
            run.client, run.services.nova, neutron, request, run.context
        )
        self.findings = audited.findings
        return audited.planned
