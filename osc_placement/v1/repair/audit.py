# SPDX-License-Identifier: Apache-2.0
"""``placement allocation audit`` and ``placement provider audit``.

Both show findings as rows; ``--repair`` makes the proposed repairs.
"""

from __future__ import annotations

import argparse
import collections
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from osc_placement.model.name import counted
from osc_placement.plan.guards import CLAIMED_HOST, MANY, RECORDED_NOVA
from osc_placement.v1.common import arguments, base, plan_command, services
from osc_placement.v1.output import rows

if TYPE_CHECKING:
    from osc_placement.nova.pci import PciConfiguration
    from osc_placement.nova.provider_config import ProviderConfig
    from osc_placement.plan import result
    from osc_placement.plan.plan import ObservedPlan
    from osc_placement.workflows.repair import findings
    from osc_placement.workflows.repair.findings import AuditResult


_COLUMNS: rows.Columns[findings.Finding[Any]] = {
    "code": lambda item: str(item.code),
    "name": lambda item: item.subject.name,
    "uuid": lambda item: item.subject.uuid,
    "hosts": lambda item: rows.lines(item.hosts),
    "evidence": lambda item: rows.described(item.evidence.fields, item.evidence.text),
    "proposed": lambda item: rows.described(item.proposed.fields, item.proposed.text),
    "cause": lambda item: str(item.evidence.cause),
    "action": lambda item: str(item.proposed.action),
}
_REPAIR_COLUMNS = (*_COLUMNS, "status", "reason", "reason_code")

#: The exit code of a repair after which no finding that can be repaired is left.
REPAIRED = 9

EXIT_CODES: Mapping[int, str] = {
    **base.EXIT_CODES,
    0: "no findings that can be repaired; with --strict: no findings",
    3: "findings that can be repaired, or are left; with --strict: any findings",
    services.NOT_CHECKED: f"a provider could not be read; {services.STRICT}",
    5: "the limit of --max-count is reached and findings are left",
    6: "some repairs failed, or a guard refused them",
    7: "some items are stale: they changed after they were read",
    REPAIRED: "all findings that can be repaired were repaired",
    130: "interrupted; repairs in progress were finished",
}

_REQUIRE_REPAIR = (
    "dry_run",
    "detailed_exitcode",
    "plan_out",
    "undo_out",
    "max_count",
    "max_percent",
)


class AuditCommand(plan_command.PlanCommand):
    """A command that reports findings, and repairs those that it can.

    ``audit`` of a subclass finds them. All findings about one subject have one change.
    """

    exit_codes = EXIT_CODES
    column_names = _REPAIR_COLUMNS

    #: Of a repair; there is no room for the evidence.
    table_columns: Sequence[str] = ("code", "name", "proposed", "status", "reason")

    findings: Sequence[findings.Finding[Any]] = ()
    not_checked: Sequence[str] = ()

    def codes(self) -> Sequence[str]:
        """The codes of findings, in the order of the summary."""
        raise NotImplementedError

    def add_audit_options(self, group: argparse._ActionsContainer) -> None:
        """Add the options that select and repair findings."""
        arguments.add_hosts(group, "Only findings about")
        arguments.add_repeated(
            group,
            "--only",
            "<code>",
            f"Only findings with this code: {', '.join(self.codes())}.",
            choices=self.codes(),
        )
        arguments.add_flag(
            group,
            "--strict",
            "Exit with 3 also if no finding can be repaired, and with 4 instead of 0 if the"
            " answer lists something as not checked",
        )
        arguments.add_flag(group, "--repair", "Make the proposed repairs")

    def check_arguments(self, parsed_args: argparse.Namespace) -> None:
        options = [name for name in _REQUIRE_REPAIR if getattr(parsed_args, name)]
        if options and not parsed_args.repair:
            self.usage_error(f"--{options[0].replace('_', '-')} requires --repair")
        # An audit without --repair is a dry run of the repair.
        parsed_args.dry_run = parsed_args.dry_run or not parsed_args.repair

    def audit(
        self, run: plan_command.CommandRun, parsed_args: argparse.Namespace
    ) -> AuditResult[Any]:
        """The findings, the plan of their repairs, and what was not checked."""
        raise NotImplementedError

    def plan(self, run: plan_command.CommandRun, parsed_args: argparse.Namespace) -> ObservedPlan:
        audited = self.audit(run, parsed_args)
        self.findings, self.not_checked = audited.findings, audited.not_checked
        return audited.planned

    def finish(self, report: result.RunReport, parsed_args: argparse.Namespace) -> base.Rows:
        from osc_placement.scheduling.answer import Caveats
        from osc_placement.workflows.repair.findings import unchecked

        findings, strict = self.findings, parsed_args.strict
        caveats = services.caveat_lines(Caveats(tuple(self.not_checked)))
        reported = [*findings]
        if parsed_args.formatter != "table":
            # Below a table, the summary says it.
            reported += map(unchecked, self.not_checked)
        if not parsed_args.repair:
            self.exit_code = self._whole(_code(findings, strict=strict), parsed_args)
            notes = [f"Note: {note}" for note in report.notes]
            notes += caveats
            self.summary = [f"On {report.target}: {self._counts()}", *notes]
            self.table_columns = ("code", "name", "evidence", "proposed")
            return rows.listing(_COLUMNS, reported)
        super().finish(report, parsed_args)
        self.summary = [
            *self.summary[:1],
            f"Found: {self._counts()}",
            *self.summary[1:],
            *caveats,
        ]
        results = {item.subject.uuid: item for item in report.results}
        if report.dry_run and not report.halted:
            self.exit_code = _code(findings, strict=strict)
        elif not self.exit_code:
            self.exit_code = _code_after(findings, results, strict=strict)
        self.exit_code = self._whole(self.exit_code, parsed_args)
        return _REPAIR_COLUMNS, [
            rows.row(_COLUMNS, item) + _end(item, results) for item in reported
        ]

    def _whole(self, code: int, parsed_args: argparse.Namespace) -> int:
        """The exit code: NOT_CHECKED in place of 0 if the audit is not whole."""
        from osc_placement.workflows.repair.findings import unread

        if code == 0 and unread(self.findings):
            return services.NOT_CHECKED
        return services.exit_code(code, self.not_checked, parsed_args)

    def _counts(self) -> str:
        """``7 findings: 4 orphaned, 2 doubled, 1 unknown``."""
        findings = self.findings
        counts = collections.Counter(str(item.code) for item in findings)
        parts = ", ".join(f"{counts[code]} {code}" for code in self.codes() if counts[code])
        return f"{counted(len(findings), 'finding')}: {parts}" if findings else "no findings"


def _code(findings: Sequence[findings.Finding[Any]], *, strict: bool) -> int:
    return 3 if any(strict or item.is_repairable for item in findings) else 0


def _code_after(
    findings: Sequence[findings.Finding[Any]],
    results: Mapping[str, result.ChangeResult],
    *,
    strict: bool,
) -> int:
    """The exit code of a repair without failures."""
    repairable = [item for item in findings if item.is_repairable]
    if any(not results[item.subject.uuid].succeeded for item in repairable):
        return 3
    if strict and len(repairable) < len(findings):
        return 3
    return REPAIRED if repairable else 0


def _end(item: findings.Finding[Any], results: Mapping[str, result.ChangeResult]) -> rows.Row:
    """Status, reason and its code; all findings about a subject have the same."""
    if not item.is_repairable:
        return ("skipped", rows.reasons(""), str(item.evidence.cause))
    repaired = results[item.subject.uuid]
    reason = "" if str(repaired.status) in {"applied", "planned"} else repaired.reason
    return (str(repaired.status), rows.reasons(reason), str(repaired.code))


class AuditAllocations(AuditCommand):
    """Find allocations that do not match nova's servers, and repair them

    Each finding has a code (see --only), its evidence and a proposed repair; for programs also
    the cause of the code and the proposed action, as codes. The expected
    allocations of a moving server depend on the phase of its move. The code is unknown if a
    deviation may be correct, if its repair is not certain, or if the consumer may belong to
    another service. Where a move failed half way, nova's host of the server is a claim: look for
    the guest, then --allow claimed-host repairs as if nova's host is right.

    --repair makes the proposed repairs. Each write replaces all allocations of one consumer
    under its generation, so that concurrent changes are never overwritten, and nova is read
    again just before it. Unknown findings and providers are never changed; the proposal
    describes what the operator can do. Nothing is changed if the repairs would remove more than
    --max-percent of all allocations: a policy that hides servers makes them look orphaned.
    """

    required_feature = "consumer generation"
    guards = (MANY, RECORDED_NOVA, CLAIMED_HOST)
    example = """\
openstack placement allocation audit
openstack placement allocation audit --repair --only orphaned \\
    --only doubled --dry-run
openstack placement allocation audit --repair --host cmp-0001"""

    uses_nova = True

    def codes(self) -> Sequence[str]:
        from osc_placement.workflows.repair.allocations import audit

        return audit.CODES

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        from osc_placement.workflows.repair.allocations import audit

        group = parser.add_argument_group("what to audit")
        self.add_audit_options(group)
        arguments.add_repeated(
            group,
            "--consumer",
            "<uuid>",
            "Only findings about this server (name or UUID) or migration (UUID).",
            type=arguments.consumer_uuid,
        )
        group.add_argument(
            "--min-age",
            metavar="<seconds>",
            type=arguments.non_negative,
            default=audit.MIN_AGE,
            help="Report as unknown what nova changed in the last seconds, and do not repair it"
            f" (default: {audit.MIN_AGE})",
        )
        services.add_check_owners(group)
        services.add_skip_port_allocations(group)
        self.add_change_options(parser)

    def audit(
        self, run: plan_command.CommandRun, parsed_args: argparse.Namespace
    ) -> AuditResult[Any]:
        from osc_placement.workflows.repair.allocations import audit

        request = audit.AuditRequest(
            hosts=frozenset(parsed_args.host),
            min_age=parsed_args.min_age,
            repair=parsed_args.repair,
            only=frozenset(parsed_args.only),
            check_owners=parsed_args.check_owners,
            consumers=frozenset(parsed_args.consumer),
            trusts_nova=CLAIMED_HOST in parsed_args.allow,
        )
        return audit.audit_cloud(
            run.client, run.services.nova, request, run.context, run.services.neutron_for_ports
        )


class AuditProviders(AuditCommand):
    """Find resource providers that do not match nova's hosts and neutron's agents

    Each finding has a code (see --only), its evidence and a proposal; for programs also the cause
    of the code and the proposed action, as codes. Nothing is reported about hosts of a cell that
    is down.

    --repair makes the repairs that are certain: the trait COMPUTE_STATUS_DISABLED of hosts with a
    compute service of another status, and the trait OWNER_NOVA of compute nodes, if others have
    it. For all other findings the proposal describes what the operator can do.
    """

    required_feature = "provider required traits"
    uses_nova = True
    guards = (RECORDED_NOVA,)
    example = """\
openstack placement provider audit
openstack placement provider audit --repair --only wrong-status --dry-run
openstack placement provider audit --provider-config \\
    /etc/nova/provider_config/*.yaml"""

    _config: ProviderConfig | None = None
    _pci: PciConfiguration | None = None

    def codes(self) -> Sequence[str]:
        from osc_placement.workflows.repair.providers import audit

        return audit.CODES

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("what to audit")
        self.add_audit_options(group)
        arguments.add_file(
            group,
            "--provider-config",
            "The provider.yaml files of the compute hosts: also report custom inventories and"
            " traits of compute nodes that none of them names. May be repeated.",
            nargs="+",
            action="extend",
            default=[],
        )
        arguments.add_file(
            group,
            "--nova-conf",
            "The nova.conf of the compute hosts: also report PCI devices in use that its"
            " [pci]device_spec does not match. Where the hosts differ, run the command once for"
            " each file, with --host.",
        )
        arguments.add_flag(group, "--skip-agents", "Do not read neutron's agents")
        self.add_change_options(parser)

    def check_arguments(self, parsed_args: argparse.Namespace) -> None:
        super().check_arguments(parsed_args)
        if parsed_args.provider_config:
            from osc_placement.nova import provider_config

            self._config = provider_config.read(parsed_args.provider_config)
        if parsed_args.nova_conf is not None:
            from osc_placement.nova import pci

            self._pci = pci.read_device_spec(parsed_args.nova_conf)

    def audit(
        self, run: plan_command.CommandRun, parsed_args: argparse.Namespace
    ) -> AuditResult[Any]:
        from osc_placement.workflows.repair.providers import audit, observe

        request = observe.ProviderAuditRequest(
            hosts=frozenset(parsed_args.host),
            only=frozenset(parsed_args.only),
            repair=parsed_args.repair,
            config=self._config,
            pci=self._pci,
        )
        neutron = None if parsed_args.skip_agents else run.services.neutron
        return audit.audit_providers(run.client, run.services.nova, neutron, request, run.context)
