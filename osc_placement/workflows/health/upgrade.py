# SPDX-License-Identifier: Apache-2.0
"""Reads a cloud once for all checks before an upgrade of nova, and makes them.

What cannot be read is a warning of the checks that need it, and the others go on.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from osc_placement import errors
from osc_placement.client import lookup
from osc_placement.model import inventory
from osc_placement.nova import api as nova_api, flavor, flavors, pci
from osc_placement.nova.compute_options import ComputeOptions
from osc_placement.plan import change
from osc_placement.scheduling import releases, request, traits
from osc_placement.scheduling.nova_options import SchedulerOptions
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.batch import mirror
from osc_placement.workflows.cloud import nova_request, observe, source
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.host_verdicts import HostVerdicts
from osc_placement.workflows.health import health, upgrade_checks as checks, upgrade_requests
from osc_placement.workflows.health.upgrade_checks import Outcome, Readiness
from osc_placement.workflows.health.upgrade_requests import CasePair, ReleaseStep, WorkloadChange
from osc_placement.workflows.repair import findings, status
from osc_placement.workflows.repair.allocations import audit as allocation_audit, missing

_SEV_ES = "HW_CPU_X86_AMD_SEV_ES"


@dataclasses.dataclass(frozen=True, slots=True)
class UpgradeRow:
    """A check with its result; ``code`` names its section on the page Before an upgrade."""

    code: str
    title: str
    outcome: Outcome


def step_of(
    version: str | errors.NotKnown,
    old: str | None,
    new: str,
    options: SchedulerOptions,
    compute: ComputeOptions | None = None,
) -> ReleaseStep:
    """The step between two releases. Pure.

    ``version`` is the maximum of the compute API, or why it is not known. Without ``old`` it is the
    oldest release with this API. Errors: InvalidInput for an unknown release, a downgrade,
    and a release that is not that of the API.
    """
    input_errors = errors.InputErrors()
    numbers = {}
    for option, text in (("--from", old), ("--to", new)):
        if text is not None:
            try:
                numbers[option] = releases.parse(text)
            except ValueError as error:
                input_errors.add(f"{option}: {error}")
    input_errors.check()
    present = traits.releases_of(version) if isinstance(version, str) else ()
    if not present and old is None:
        raise errors.InvalidInput([f"{version}: give --from"])
    target = numbers["--to"]
    source = numbers.get("--from", min(present, default=target))
    if present and source not in present:
        titles = " or ".join(map(releases.title, present))
        raise errors.InvalidInput(
            [
                f"--from {old}: nova-api is {titles} (compute API {version}). If only a part of"
                " nova is upgraded, end the upgrade first"
            ]
        )
    if target <= source:
        raise errors.InvalidInput(
            [f"--to {new}: it is not newer than {releases.title(source)}, the present release"]
        )
    return ReleaseStep(source, target, options, compute)


@dataclasses.dataclass(eq=False)
class UpgradeReader:
    """Reads what the checks need, each thing once. Errors: PlacementError of a service."""

    services: health.HealthServices
    glance: Callable[[], flavors.Glance]
    has_role: Callable[[], bool]
    upgrade: ReleaseStep
    configuration: pci.PciConfiguration | None
    context: ReadContext

    @functools.cached_property
    def audited(self) -> allocation_audit.AuditReading:
        """Servers, hosts, providers and allocations."""
        return allocation_audit.read_cloud(
            self.services.client,
            self.services.require_nova(),
            allocation_audit.AuditRequest(min_age=allocation_audit.MIN_AGE),
            self.context,
            self.services.neutron_or_none,
        )

    @property
    def cloud(self) -> Cloud:
        """The reading of ``audited``."""
        return self.audited.snapshot

    @functools.cached_property
    def mirrored(self) -> mirror.MirrorReading:
        """Nova's host aggregates, and their members in Placement."""
        return mirror.read_cloud(
            self.services.client,
            self.services.require_nova(),
            mirror.MirrorRequest(),
            self.context,
        )

    @functools.cached_property
    def inventories(self) -> Mapping[str, inventory.Inventories]:
        """``{provider: its inventories}``."""
        reader = observe.CloudReader(self.services.client, self.context)
        return reader.inventories(list(self.cloud.providers))

    @functools.cached_property
    def having(self) -> Mapping[str, frozenset[str]]:
        """``{new trait: the providers that have it}``, without those that none has."""
        new = releases.new_traits(self.upgrade.old, self.upgrade.new)
        used = self.services.client.list_traits(associated=True)
        return {name: self.with_trait(name) for name in sorted(new.intersection(used))}

    def with_trait(self, name: str) -> frozenset[str]:
        """The providers with a trait."""
        return lookup.providers_with_trait(self.services.client, name)

    @functools.cached_property
    def named_flavors(self) -> list[flavors.NamedFlavor]:
        """Nova's flavors, by name."""
        listed = flavors.flavors(self.services.require_nova())
        return sorted(listed, key=lambda item: item.name)

    @functools.cached_property
    def images(self) -> list[flavors.Image]:
        """Glance's images, by name."""
        return sorted(flavors.images(self.glance()), key=lambda item: item.name)

    @functools.cached_property
    def host_names(self) -> dict[str, str]:
        """``{root UUID: host}`` of the compute nodes."""
        return {node.uuid: node.host for node in self.cloud.hosts.nodes}

    def pairs(self, workloads: Sequence[upgrade_requests.Workload]) -> list[CasePair]:
        """The cases of both releases."""
        mirrored, _ = self.mirrored
        return upgrade_requests.pairs(
            workloads, self.facts, self._running, mirrored.aggregates, self.upgrade
        )

    @functools.cached_property
    def flavor_pairs(self) -> list[CasePair]:
        """The cases of the flavors."""
        return self.pairs(upgrade_requests.of_flavors(self.named_flavors))

    @functools.cached_property
    def facts(self) -> nova_request.CloudFacts:
        """Glance's images of servers: those of the list, and each other one once."""
        neutron, listed = self.services.require_neutron, list[flavors.Image]()
        glance: Callable[[], flavors.Glance] = self.glance
        try:
            listed = self.images
        except nova_api.NotRecorded:
            """A recording may have only the images of servers."""
        except errors.PlacementError as error:
            glance = functools.partial(_refuse, error)
        services = nova_request.RequestServices(
            self.services.require_nova(), neutron, glance, self.with_trait
        )
        return nova_request.CloudFacts(services, listed)

    @functools.cached_property
    def specs(self) -> list[tuple[str, request.ServerSpec]]:
        """``(server, what nova schedules without its ports)``, of the cells that are up."""
        return [
            (server.name or server.uuid, nova_request.spec_of(server, (), self.facts))
            for server in self.cloud.servers.values()
            if server.known and server.flavor is not None
        ]

    def changes(self, pairs: Sequence[CasePair]) -> list[WorkloadChange]:
        """What the requests lose. Requests: those of ``Wide`` on a service, exact for all trees."""
        client, upgrade = self.services.client, self.upgrade
        queries = [query for pair in pairs for query in pair.queries()]
        if not queries:
            return []
        with source.of(client, self.context).observed(queries) as observed:
            observed.refine(None)
            empty = observed.base.without_allocations()
            verdicts = HostVerdicts(empty, self._running)
            return [upgrade_requests.compare(empty, pair, upgrade, verdicts) for pair in pairs]

    @functools.cached_property
    def _running(self) -> ServerHosts:
        """Nova's hosts, as if each nova-compute ran: one that is down comes back."""
        hosts = self.cloud.hosts
        services = tuple(
            dataclasses.replace(service, is_up=True, is_enabled=True, is_forced_down=False)
            for service in hosts.compute_services
        )
        return ServerHosts(dataclasses.replace(hosts, compute_services=services))

    def missing(self) -> list[findings.Finding[Any]]:
        """The servers on a host without allocations, or without those that their ports request."""
        return [
            item
            for item in missing.find(self.cloud, self.audited.context)
            if item.hosts and item.code in (missing.MISSING, findings.UNKNOWN)
            # A server that is built for hours has allocations, and is unknown.
            if item.code == missing.MISSING or not item.evidence.fields["allocations"]
        ]

    def aliases(self) -> dict[str, list[str]]:
        """``{flavor: its PCI aliases}``."""
        named = {
            item.name: [alias for alias, _ in flavor.pci_devices(item.flavor.extra_specs)]
            for item in self.named_flavors
        }
        return {name: aliases for name, aliases in named.items() if aliases}


def _flavors(reader: UpgradeReader) -> Outcome:
    changes = reader.changes(reader.flavor_pairs)
    return checks.workloads(changes, reader.host_names, "flavor")


def _images(reader: UpgradeReader) -> Outcome:
    try:
        pairs = reader.pairs(upgrade_requests.of_images(reader.images))
    except nova_api.NotRecorded:
        return Outcome(Readiness.NOT_CHECKED, ("a recording of nova has no list of images",))
    return checks.workloads(reader.changes(pairs), reader.host_names, "image")


def _servers(reader: UpgradeReader) -> Outcome:
    pairs = reader.pairs(upgrade_requests.of_servers(reader.specs))
    outcome = checks.workloads(reader.changes(pairs), reader.host_names, "server")
    outcome = checks.without_images(outcome, [spec for _, spec in reader.specs])
    return checks.without_hidden(outcome, reader.cloud.servers.values())


def _refuse(error: errors.PlacementError) -> flavors.Glance:
    raise error


def _wide_trees(reader: UpgradeReader) -> Outcome:
    queries = {
        pair.workload.name: pair.new.requests[0].query
        for pair in reader.flavor_pairs
        if pair.new.requests
    }
    return checks.wide_trees(reader.cloud, reader.inventories, queries, reader.upgrade)


def _allocations(reader: UpgradeReader) -> Outcome:
    servers = reader.cloud.servers.values()
    outcome = checks.without_allocations(reader.missing(), sum(server.known for server in servers))
    unread = findings.unread(allocation_audit.find(reader.cloud, reader.audited.context))
    return checks.without_hidden(outcome, servers, unread)


def _placement_api(reader: UpgradeReader) -> Outcome:
    return checks.placement_api(status.observe_status(reader.services.client))


def _trait_names(reader: UpgradeReader) -> Outcome:
    return checks.trait_names(reader.services.client.list_traits(), reader.upgrade)


def _encryption(it: UpgradeReader) -> Outcome:
    return checks.encryption(it.cloud, it.inventories, it.cloud.used, it.upgrade, it.has_role)


def _host_aggregates(reader: UpgradeReader) -> Outcome:
    mirrored, resolved = reader.mirrored
    planned = mirror.decide_mirror(mirrored, resolved)
    refused = (item for item in planned.skipped if item.refused)
    missing: list[change.Change[Any] | change.Skipped] = [*planned.changes, *refused]
    return checks.host_aggregates(missing, len(mirrored.aggregates))


def _sev_es(it: UpgradeReader) -> Outcome:
    return checks.sev_es(it.cloud, it.with_trait(_SEV_ES), it.cloud.used, it.upgrade)


#: ``(code, title, check)`` in the order of the table.
CHECKS: Sequence[tuple[str, str, Callable[[UpgradeReader], Outcome]]] = (
    ("step", "Release step", lambda it: checks.step(it.upgrade)),
    ("placement-api", "Placement API", _placement_api),
    ("trait-names", "Names of traits", _trait_names),
    (
        "one-release",
        "One release of nova-compute",
        lambda it: checks.one_release(it.cloud, it.having),
    ),
    ("computes", "Compute services", lambda it: checks.computes(it.cloud, it.having, it.upgrade)),
    ("flavors", "Flavors", _flavors),
    ("images", "Images", _images),
    ("servers", "Flavors and images of servers", _servers),
    ("encryption", "Reshape of encrypted memory", _encryption),
    ("sev-es", "SEV-ES guests", _sev_es),
    (
        "one-time-use",
        "One-time-use devices",
        lambda it: checks.one_time_use(it.configuration, it.upgrade),
    ),
    (
        "compute-options",
        "Options of nova-compute",
        lambda it: checks.compute_options(it.cloud, it.upgrade),
    ),
    ("hypervisors", "Hypervisors", lambda it: checks.hypervisors(it.cloud, it.upgrade)),
    ("pci-aliases", "PCI aliases", lambda it: checks.aliases(it.aliases(), it.upgrade.options)),
    ("wide-trees", "Wide provider trees", _wide_trees),
    ("allocations", "Servers without allocations", _allocations),
    ("host-aggregates", "Host aggregates", _host_aggregates),
)


def check_upgrade(reader: UpgradeReader, services: health.HealthServices) -> list[UpgradeRow]:
    """Every check, in order.

    Requests: those of ``allocation_audit.read_cloud``, ``mirror.plan_mirror`` and
    ``Wide`` for all queries, each different one once; one listing for each new trait
    that a provider has, and two of all traits; to nova one per 1000 flavors; to glance one per page
    of images, and one for each image of a server that is not among them.
    """
    with health.read_once(services):
        return [UpgradeRow(code, title, _run(run, reader)) for code, title, run in CHECKS]


def _run(run: Callable[[UpgradeReader], Outcome], reader: UpgradeReader) -> Outcome:
    try:
        return run(reader)
    except errors.PlacementError as error:
        return Outcome(Readiness.WARNING, (f"not checked: {error}",))
