# SPDX-License-Identifier: Apache-2.0
"""The checks before an upgrade of nova. Pure: each is a function of what was read.

A check gives an ``Outcome``. What is wrong already, and what the new release adds, are the same
to an operator: both stop the upgrade, or need a look before it.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from osc_placement import errors
from osc_placement.model import inventory
from osc_placement.model.candidate import CandidateQuery
from osc_placement.model.name import and_more, counted
from osc_placement.nova import flavor, pci, servers as nova_servers, values
from osc_placement.plan import change
from osc_placement.scheduling import nova_options, releases, request, traits as nova_traits
from osc_placement.scheduling.nova_options import SchedulerOptions
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.health.upgrade_requests import ReleaseStep, WorkloadChange
from osc_placement.workflows.repair import findings, status

#: Lines of details, and names in a line.
_LINES, _NAMES = 3, 3
_NO_FILE = "--nova-conf names the nova.conf of a compute host"
_SKIP = "[workarounds]disable_compute_service_check_for_ffu"
#: A search with more combinations of devices is called slow.
_COMBINATIONS = 20_000
#: ``{release of nova: what the Placement of its release has against a slow search}``
_AGAINST_SLOW: Mapping[int, str] = {
    33: "set [workarounds]optimize_for_wide_provider_trees in placement.conf",
    31: "[placement]max_allocation_candidates with allocation_candidates_generation_strategy ="
    " breadth-first limits it; 2026.1 has [workarounds]optimize_for_wide_provider_trees",
    27: "Placement has nothing against it before 2025.1",
}


class Readiness(enum.StrEnum):
    """The result of a check."""

    SUCCESS = "success"
    WARNING = "warning"
    FAILURE = "failure"
    #: It needs something that was not given.
    NOT_CHECKED = "not checked"


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one check; ``subjects`` are all names that it concerns."""

    result: Readiness
    details: Sequence[str] = ()
    subjects: Sequence[str] = ()

    @classmethod
    def success(cls, text: str) -> Outcome:
        """Nothing to do; the text says what was checked."""
        return cls(Readiness.SUCCESS, (text,))

    @classmethod
    def of_lines(
        cls, result: Readiness, lines: Sequence[str], subjects: Iterable[str], advice: str = ""
    ) -> Outcome:
        """The first lines, and the number of the others."""
        more = len(lines) - _LINES
        shown = [*lines[:_LINES], *([f"... and {more} more"] if more > 0 else [])]
        return cls(result, (*shown, *([advice] if advice else [])), sorted({*subjects}))


def placement_api(observed: status.CloudStatus) -> Outcome:
    """The microversions of Placement, and those that nova needs."""
    first = next(iter(status.checks(observed)))
    lowest, highest = observed.server
    if first.verdict is status.CheckVerdict.SUCCESS:
        return Outcome.success(f"{lowest} to {highest}; nova needs {status.NOVA_NEEDS}")
    return Outcome(Readiness.FAILURE, (first.details,), (observed.target,))


def trait_names(traits: Collection[str], upgrade: ReleaseStep) -> Outcome:
    """Traits that the new nova writes or requires, and Placement does not know.

    Placement refuses all traits of a provider if it does not know one.
    """
    required = releases.new_traits(upgrade.old, upgrade.new, releases.REQUIRED_SINCE)
    new = releases.new_traits(upgrade.old, upgrade.new) | required
    missing = sorted(new.difference(traits))
    if not missing:
        return Outcome.success(f"Placement knows all {counted(len(new), 'new trait')}")
    text = f"Placement does not know {and_more(missing, _NAMES)}"
    advice = (
        f"nova {upgrade.new} needs os-traits {releases.OS_TRAITS[upgrade.new]}: upgrade Placement"
        " before nova"
    )
    return Outcome(Readiness.WARNING, (text, advice), missing)


def step(upgrade: ReleaseStep) -> Outcome:
    """Whether the new services start beside nova-computes of the present release."""
    old, new = upgrade.old, upgrade.new
    version, least = releases.COMPUTE_VERSION[old], releases.OLDEST_VERSION[new]
    beside = f"beside nova-computes of {releases.title(old)}"
    versions = f"service version {version}, the least is {least}"
    first = f"upgrade to {releases.title(releases.way(old, new))} first"
    if releases.starts(old, new):
        text = f"{releases.title(new)} starts {beside}: {versions}"
        if releases.is_supported(old, new):
            return Outcome.success(text)
    elif upgrade.compute and upgrade.compute.skips_version_check:
        text = f"{releases.title(new)} starts {beside} only by {_SKIP}: {versions}"
    else:
        text = f"the services of {releases.title(new)} do not start {beside}: {versions}"
        return Outcome(Readiness.FAILURE, (text, first))
    return Outcome(Readiness.WARNING, ("nova does not support this step", first, text))


def one_release(cloud: Cloud, having: Mapping[str, Collection[str]]) -> Outcome:
    """Whether some hosts are upgraded already; ``having`` is ``{new trait: providers}``."""
    marked: dict[str, list[str]] = collections.defaultdict(list)
    for trait, uuids in sorted(having.items()):
        for root in {cloud.root_of(uuid) for uuid in uuids}:
            node = cloud.compute_nodes.get(root)
            if node is not None:
                marked[node.host].append(trait)
    count = len(cloud.nodes_of_host)
    if not marked:
        return Outcome.success(f"no sign of the new release on {counted(count, 'host')}")
    lines = [f"{host} has {and_more(traits, _NAMES)}" for host, traits in sorted(marked.items())]
    advice = "upgraded already, or set by hand: the rules of the present release may not hold"
    return Outcome.of_lines(Readiness.WARNING, lines, marked, advice)


def computes(cloud: Cloud, having: Mapping[str, Collection[str]], upgrade: ReleaseStep) -> Outcome:
    """Whether each nova-compute runs: one that does not is not upgraded, and writes no trait.

    ``having`` is ``{new trait: providers}``.
    """
    nodes, services = cloud.hosts.nodes, cloud.hosts.compute_services
    down = {service.host: "nova-compute is not up" for service in services if not service.is_up}
    down |= dict.fromkeys(cloud.hosts.unreachable, "its cell is down")
    coming = ""
    if upgrade.old < nova_traits.OWNER_SINCE <= upgrade.new:
        owned = sum(node.uuid in having.get(nova_traits.OWNER, ()) for node in nodes)
        coming = (
            f"{nova_traits.OWNER}: {owned} of {counted(len(nodes), 'compute node')} have it;"
            " required when every nova-compute is upgraded"
        )
    lines = [f"{host}: {why}" for host, why in sorted(down.items())]
    if not lines:
        lines = [f"{counted(len(cloud.nodes_of_host), 'host')} up"]
    result = Readiness.WARNING if down else Readiness.SUCCESS
    return Outcome.of_lines(result, lines, down, coming)


def workloads(changes: Sequence[WorkloadChange], names: Mapping[str, str], what: str) -> Outcome:
    """Flavors, images or servers that lose hosts; ``names`` is ``{root UUID: host}``."""
    worst = [item for item in changes if item.loses_all]
    some = [item for item in changes if item.loses_some]
    waiting = [item for item in changes if item.waits and not item.loses_some]
    affected = [*worst, *some, *waiting]
    if not affected:
        # Of a server without its image only the flavor was checked.
        checked = (
            item.workload
            for item in changes
            if item.workload.spec.uuid is None or item.workload.spec.image is not None
        )
        count = sum(len(workload.subjects) for workload in checked)
        return Outcome.success(f"{counted(count, what)} checked: none loses a host")
    result = Readiness.FAILURE if worst else Readiness.WARNING
    lines = [item.text(names) for item in affected]
    subjects = [name for item in affected for name in item.workload.subjects]
    return Outcome.of_lines(result, lines, subjects)


def without_images(outcome: Outcome, specs: Iterable[request.ServerSpec]) -> Outcome:
    """The result of a check of servers; no success if the image of one is not known."""
    unknown = collections.Counter(
        spec.why_no_image or "the images of volumes: nova does not show their properties"
        for spec in specs
        if spec.image is None
    )
    texts = [f"{why} ({counted(count, 'server')})" for why, count in unknown.items()]
    return _with_unchecked(outcome, texts, Readiness.NOT_CHECKED)


def _with_unchecked(outcome: Outcome, texts: Sequence[str], result: Readiness) -> Outcome:
    """An outcome with what was not checked, which is no success then."""
    if outcome.result is not Readiness.SUCCESS or not texts:
        result = outcome.result
    details = (*outcome.details, *(f"not checked: {text}" for text in texts))
    return dataclasses.replace(outcome, result=result, details=details)


def encryption(
    cloud: Cloud,
    inventories: Mapping[str, inventory.Inventories],
    used: Mapping[str, Mapping[str, int]],
    upgrade: ReleaseStep,
    has_role: Callable[[], bool],
) -> Outcome:
    """The reshape of encrypted memory, which nova-compute makes when it starts.

    ``has_role``: whether nova's user has the role service; a PlacementError says why it is not
    known. It is called if there is a reshape.
    """
    name = flavor.MEM_ENCRYPTION_CONTEXT
    if not upgrade.old < releases.ENCRYPTION_PROVIDERS_SINCE <= upgrade.new:
        return Outcome.success("nova-compute reshapes nothing in this step")
    roots = {
        uuid: inventories[uuid][name]
        for uuid in cloud.compute_nodes
        if name in inventories.get(uuid, {})
    }
    if not roots:
        return Outcome.success(f"no host has {name}")
    blocked, lines = [], []
    for uuid, offered in sorted(roots.items(), key=lambda item: cloud.compute_nodes[item[0]].host):
        host, amount = cloud.compute_nodes[uuid].host, used.get(uuid, {}).get(name, 0)
        text = f"{host}: {amount} of {offered.capacity} {name} in use"
        if amount > offered.capacity:
            blocked.append(f"{text}: Placement refuses this")
        else:
            lines.append(f"{text} move to a new provider")
    result, advice = Readiness.SUCCESS, "nova's user has the role service"
    try:
        if not has_role():
            advice = "nova-compute does not start: give nova's user in its project the role service"
            blocked.insert(0, "nova's user lacks the role service: Placement refuses the reshape")
    except errors.PlacementError as error:
        result, advice = Readiness.WARNING, f"not checked: the role service of nova's user: {error}"
    result = Readiness.FAILURE if blocked else result
    hosts = [cloud.compute_nodes[uuid].host for uuid in roots]
    return Outcome.of_lines(result, [*blocked, *lines], hosts, advice)


def sev_es(
    cloud: Cloud,
    sev_es_providers: Collection[str],
    used: Mapping[str, Mapping[str, int]],
    upgrade: ReleaseStep,
) -> Outcome:
    """Guests with SEV-ES, beside which nova-compute does not start with SEV-SNP."""
    if upgrade.new < releases.SNP_SINCE:
        return Outcome.success("the new release has no SEV-SNP")
    hosts = {}
    for uuid in sev_es_providers:
        amount = used.get(uuid, {}).get(flavor.MEM_ENCRYPTION_CONTEXT, 0)
        node = cloud.compute_nodes.get(cloud.root_of(uuid))
        if amount and node:
            hosts[node.host] = f"{node.host}: {counted(amount, 'guest')} with SEV-ES"
    if not hosts:
        return Outcome.success("no guest has SEV-ES")
    advice = "nova-compute does not start there if SEV-SNP is on: move the guests, or switch it off"
    return Outcome.of_lines(Readiness.WARNING, sorted(hosts.values()), hosts, advice)


def one_time_use(configuration: pci.PciConfiguration | None, upgrade: ReleaseStep) -> Outcome:
    """One-time-use devices that nova-compute does not report to Placement."""
    if upgrade.new < releases.ONE_TIME_USE_SINCE:
        return Outcome.success("the new release has none")
    if configuration is None and upgrade.old >= releases.ONE_TIME_USE_SINCE:
        return Outcome.success("the present release checks them already")
    if configuration is None or configuration.specs is None:
        return Outcome(Readiness.NOT_CHECKED, (f"{_NO_FILE} with its [pci]device_spec",))
    uses = {spec.is_one_time_use for spec in configuration.specs}
    if None in uses:
        text, to_do = "a one_time_use that is neither true nor false", "write true or false"
    elif True in uses and not configuration.is_reported:
        text = "one_time_use, and report_in_placement is off"
        to_do = "set [pci]report_in_placement = true"
    else:
        return Outcome.success(f"{configuration.path} has none that is not reported")
    details = (f"device_spec has {text}", f"nova-compute does not start: {to_do}")
    return Outcome(Readiness.FAILURE, details, (configuration.path,))


def compute_options(cloud: Cloud, upgrade: ReleaseStep) -> Outcome:
    """What in a nova.conf stops the new nova-compute at its start."""
    compute, options = upgrade.compute, upgrade.options
    if compute is None:
        return Outcome(Readiness.NOT_CHECKED, (_NO_FILE,))
    aliases = options.aliases if upgrade.new >= request.ALIASES_CHECKED_SINCE else None
    wrong = nova_options.wrong_aliases(aliases or {}, in_placement=options.pci_in_placement)
    reasons = [*compute.refused, *(f"[pci]{reason}" for reason in wrong)]
    if lines := [f"nova-compute does not start: {reason}" for reason in reasons]:
        return Outcome.of_lines(Readiness.FAILURE, lines, (compute.path,))
    if not compute.is_of_compute:
        text = f"{compute.path} has no compute_driver, or an [api_database]connection: {_NO_FILE}"
        return Outcome(Readiness.NOT_CHECKED, (text,))
    hosts = {*cloud.nodes_of_host, *cloud.hosts.services, *cloud.hosts.unreachable}
    if compute.host is not None and compute.host not in hosts:
        text = f"[DEFAULT]host is {compute.host}, and nova has no such host"
        advice = "nova-compute does not start when the name of its host changes"
        return Outcome(Readiness.WARNING, (text, advice), (compute.path,))
    return Outcome.success(f"{compute.path}: nothing stops a nova-compute")


def hypervisors(cloud: Cloud, upgrade: ReleaseStep) -> Outcome:
    """Hosts whose QEMU is too old for the new nova-compute."""
    least = releases.QEMU[upgrade.new]
    versions = {
        node.host: (*divmod(node.hypervisor[1] // 1000, 1000), node.hypervisor[1] % 1000)
        for node in cloud.hosts.nodes
        if node.hypervisor[0] == "QEMU" and node.hypervisor[1]
    }
    lines = [
        f"{host}: QEMU {'.'.join(map(str, version))}, the least is {least}"
        for host, version in sorted(versions.items())
        if version < tuple(map(int, least.split(".")))
    ]
    if lines:
        advice = "nova-compute does not start there: upgrade its system first"
        hosts = (line.partition(":")[0] for line in lines)
        return Outcome.of_lines(Readiness.FAILURE, lines, hosts, advice)
    hidden = sorted(
        node.host
        for node in cloud.hosts.nodes
        if node.host not in versions and node.hypervisor[0] in ("QEMU", "")
    )
    hidden += sorted(cloud.hosts.unreachable)
    libvirt = f"libvirt ({releases.LIBVIRT[upgrade.new]} or later) is not shown by nova"
    qemu = f"{counted(len(versions), 'hypervisor')} of QEMU {least} or later"
    if hidden:
        text = f"{and_more(hidden, _NAMES)}: nova shows no version of QEMU"
        return Outcome(Readiness.NOT_CHECKED, (text, qemu, libvirt), hidden)
    return Outcome(Readiness.SUCCESS if versions else Readiness.NOT_CHECKED, (qemu, libvirt))


def aliases(flavors: Mapping[str, Sequence[str]], options: SchedulerOptions) -> Outcome:
    """PCI devices of flavors (``{flavor: aliases}``)."""
    if not flavors:
        return Outcome.success("no flavor has a PCI alias")
    names = and_more(sorted(flavors), _NAMES)
    text = f"{names}: without pci_in_placement nova checks the devices, and Placement does not"
    if options.aliases is None:
        text = f"{names}: --nova-conf names the nova.conf with their PCI aliases"
    elif options.pci_in_placement:
        return Outcome.success(f"{names}: their devices are in the queries that were checked")
    return Outcome(Readiness.NOT_CHECKED, (text,), sorted(flavors))


def wide_trees(
    cloud: Cloud,
    inventories: Mapping[str, inventory.Inventories],
    queries: Mapping[str, CandidateQuery],
    upgrade: ReleaseStep,
) -> Outcome:
    """Flavors (``{name: query}``) whose candidates explode in trees with many equal devices."""
    trees = {
        cloud.providers[root].name: [inventories.get(item.uuid, {}) for item in members]
        for root, members in cloud.trees.items()
        if len(members) > 1
    }
    lines = {}
    for name, query in sorted(queries.items()):
        groups = [group.resources for group in query.groups if group.suffix and group.resources]
        count, host = max(
            ((_combinations(groups, tree), host) for host, tree in trees.items()), default=(0, "")
        )
        if count > _COMBINATIONS:
            lines[name] = f"{name}: {count} combinations of devices on {host}"
    if not lines:
        return Outcome.success(f"no flavor has more than {_COMBINATIONS} combinations of devices")
    advice = next(text for since, text in _AGAINST_SLOW.items() if since <= upgrade.new)
    return Outcome.of_lines(Readiness.WARNING, list(lines.values()), lines, f"slow: {advice}")


def _combinations(
    groups: Iterable[Mapping[str, int]], tree: Sequence[inventory.Inventories]
) -> int:
    """In how many ways Placement combines the providers that each group of a request can use."""
    return math.prod(
        sum(
            all(name in offered and offered[name].capacity >= n for name, n in group.items())
            for offered in tree
        )
        for group in groups
    )


def without_allocations(missing: Sequence[findings.Finding[Any]], count: int) -> Outcome:
    """Servers without allocations: the scheduler sells their resources again."""
    if not missing:
        return Outcome.success(f"{counted(count, 'server')} checked")
    lines = [
        f"{item.subject.name} on {and_more(item.hosts)}"
        + ("" if item.repair else f" ({item.proposed.text})")
        for item in sorted(missing, key=lambda item: (item.repair is None, item.subject.name))
    ]
    subjects = [item.subject.uuid for item in missing]
    return Outcome.of_lines(
        Readiness.WARNING, lines, subjects, "repair: openstack placement allocation heal"
    )


def without_hidden(
    outcome: Outcome, servers: Iterable[values.Server], unread: Iterable[str] = ()
) -> Outcome:
    """The result of a check of servers, with what was not read; a success becomes a warning."""
    texts = [*nova_servers.unread(servers), *unread]
    return _with_unchecked(outcome, texts, Readiness.WARNING)


def host_aggregates(missing: Sequence[change.Change[Any] | change.Skipped], count: int) -> Outcome:
    """Hosts that are in a host aggregate, and not in Placement's aggregate, or perhaps not."""
    if not missing:
        return Outcome.success(f"{counted(count, 'host aggregate')} checked")
    lines = [f"{item.subject.name} {item.reason}".strip() for item in missing]
    advice = "nova reads zones and tenants in Placement only: openstack placement aggregate mirror"
    return Outcome.of_lines(
        Readiness.WARNING, lines, [item.subject.name for item in missing], advice
    )
