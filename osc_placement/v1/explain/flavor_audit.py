# SPDX-License-Identifier: Apache-2.0
"""``placement flavor audit``."""

from __future__ import annotations

import argparse
import collections
import contextlib
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from osc_placement.model.name import counted
from osc_placement.v1.common import arguments, base, nova_request, services
from osc_placement.v1.output import rows

if TYPE_CHECKING:
    from osc_placement.scheduling.answer import Caveats
    from osc_placement.workflows.explain import flavor_audit as audit


class AuditFlavors(base.ReportLister):
    """Find flavors that no host, one host or too many candidates can serve

    Sends nova's query for each flavor, without an image and an availability zone. The code is
    ok; unknown-flavor (nova does not have a named flavor); invalid (nova or Placement refuses the
    query); unknown-name (a trait or class does not
    exist, also a forbidden trait); no-host (not even without allocations); full (only without
    the present allocations); out-of-service (nova-compute of the hosts is down or disabled, or
    nova does not have them); one-host; many-candidates (Placement returns only some, so nova
    may not see all hosts); unknown (hosts can serve the query, but nova also checks what
    Placement does not have, such as PCI devices and NUMA nodes). Where releases of nova send
    different queries, a flavor has several rows.
    """

    required_feature = "candidate root_required"
    exit_codes = {
        **base.EXIT_CODES,
        3: "a flavor has a finding, or a code of --fail-on",
        services.NOT_CHECKED: f"no finding, but a flavor is unknown, or {services.DIFFERENT}",
    }
    example = """\
openstack placement flavor audit
openstack placement flavor audit --fail-on unknown-name \\
    --fail-on no-host m1.large"""

    table_columns: Sequence[str] = ("name", "code", "hosts", "hosts_if_empty", "reason")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        from osc_placement.workflows.explain import flavor_audit as audit

        codes = [str(code) for code in audit.FlavorCode if code is not audit.FlavorCode.OK]
        parser.add_argument(
            "flavors",
            metavar="<flavor>",
            nargs="*",
            help="Flavors by name or ID (default: all flavors)",
        )
        arguments.add_repeated(
            parser,
            "--fail-on",
            "<code>",
            f"Exit with 3 only if a flavor has this code: {', '.join(codes)}. Default:"
            " all but unknown.",
            choices=codes,
        )
        arguments.add_file(
            parser, "--after", "Audit a copy of the cloud after the changes of this plan file"
        )
        nova_request.add_scheduler_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        from osc_placement.plan import file
        from osc_placement.scheduling.answer import Caveats, joined
        from osc_placement.workflows.cloud import compute_nodes, rehearsal
        from osc_placement.workflows.explain import flavor_audit as audit

        nova = services.NovaServices(self).nova
        client = self.connect()
        target = str(client.target)
        failures: Sequence[str] = ()
        options = nova_request.scheduler(parsed_args)
        compute = compute_nodes.read_server_hosts(None if parsed_args.no_nova else nova)
        with contextlib.ExitStack() as stack:
            context = stack.enter_context(self.reading())
            if parsed_args.after is not None:
                path = parsed_args.after
                planned = file.read(path)
                changed = rehearsal.after_plan(client, planned, path, context)
                _, after = stack.enter_context(changed)
                client, failures = after.client, after.failures
                target = f"{target} after {path}"
            flavors = audit.audit(
                client,
                nova,
                parsed_args.flavors,
                options,
                context,
                compute,
            )
        fails = parsed_args.fail_on or set(audit.FlavorCode) - audit.NO_FINDING
        self.exit_code = _code(flavors, fails) or (services.NOT_CHECKED if failures else 0)
        of_all = Caveats(compute.not_checked)
        self.exit_code = services.answer_code(
            self.exit_code,
            joined([of_all, *(flavor.caveats for flavor in flavors)]),
            strict=parsed_args.strict,
            only_placement=parsed_args.no_nova,
        )
        counts = collections.Counter(str(flavor.code) for flavor in flavors)
        parts = ", ".join(f"{count} {code}" for code, count in sorted(counts.items()))
        refused = joined(Caveats(not_counted=each.caveats.not_counted) for each in flavors)
        self.summary = [
            f"On {target}: {counted(len({flavor.id for flavor in flavors}), 'flavor')}: {parts}",
            *(f"Not applied to the copy: {line}" for line in failures),
            *_notes("Assumed", flavors, [flavor.caveats.assumed for flavor in flavors]),
            *services.caveat_lines(refused + of_all),
            *_notes("Not checked", flavors, [flavor.caveats.doubts for flavor in flavors]),
            *_notes("Note", flavors, [flavor.caveats.notes for flavor in flavors]),
        ]
        columns = _columns(of_all)
        if parsed_args.nova_conf is not None:
            # Hosts that nova tries if builds fail.
            columns["attempts"] = lambda flavor: min(flavor.hosts, options.max_attempts)
            self.table_columns = (*self.table_columns[:-1], "attempts", "reason")
        return rows.listing(columns, flavors)


def _code(audited: Sequence[audit.AuditedFlavor], fails: Collection[str]) -> int:
    """3 if a flavor fails by all rules of nova that may hold, NOT_CHECKED if one does by some."""
    failing: dict[str, list[bool]] = {}
    for flavor in audited:
        failing.setdefault(flavor.name, []).append(str(flavor.code) in fails)
    if any(map(all, failing.values())):
        return 3
    return services.NOT_CHECKED if any(map(any, failing.values())) else 0


def _notes(
    title: str, audited: Sequence[audit.AuditedFlavor], texts: Sequence[Sequence[str]]
) -> list[str]:
    """A line for each text, with the flavors that it concerns, if not all with a query."""
    flavors: dict[str, dict[str, None]] = {}
    for flavor, notes in zip(audited, texts, strict=True):
        for note in notes:
            flavors.setdefault(note, {})[flavor.name] = None
    with_query = len({flavor.name for flavor in audited if flavor.releases})
    return [
        f"{title}: {note}"
        if len(names) == with_query
        else f"{title} for {', '.join(names)}: {note}"
        for note, names in flavors.items()
    ]


def _columns(of_all: Caveats) -> dict[str, Callable[[audit.AuditedFlavor], Any]]:
    """The columns; ``of_all`` concerns every flavor."""
    return {
        "name": lambda flavor: flavor.name,
        "id": lambda flavor: flavor.id,
        "code": lambda flavor: str(flavor.code),
        "hosts": lambda flavor: flavor.hosts,
        "hosts_if_empty": lambda flavor: flavor.empty_hosts,
        "hosts_if_empty_at_most": lambda flavor: flavor.empty_hosts_at_most,
        "candidates": lambda flavor: flavor.candidates,
        "complete": lambda flavor: not flavor.is_bound,
        "reason": lambda flavor: flavor.reason,
        **services.caveat_columns(lambda flavor: of_all + flavor.caveats),
        "nova": lambda flavor: rows.lines(flavor.releases),
    }
