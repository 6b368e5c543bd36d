# SPDX-License-Identifier: Apache-2.0
"""The filters of nova's scheduler, for one host. Pure.

Each rule says why a filter refuses a host; an empty text accepts it. A filter that compares data
which nova's API does not show raises NotKnown, if the server has something that it compares.
lab/tests/test_filters.py compares the rules for host aggregates with nova's own filters.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping

from osc_placement.model.name import counted
from osc_placement.nova import values
from osc_placement.scheduling.answer import NotKnown
from osc_placement.scheduling.case import Case, GroupMembers
from osc_placement.scheduling.rule import Host, Rule, Stage

#: The scope of the extra specs that only the first filter compares.
AGGREGATE_SCOPE = "aggregate_instance_extra_specs"
_TENANT_KEY = "filter_tenant_id"
#: From this release on the filter also reads keys that begin with it.
_TENANT_KEYS_SINCE = 30
_TYPE_KEY = "instance_type"
_NUMBER_KEY = "max_instances_per_host"
_OPERATIONS_KEY = "max_io_ops_per_host"
_ZONE_KEY = "availability_zone"

#: The beginnings of the names of image properties that nova knows.
_OF_IMAGES = ("hw_", "os_", "img_")

COMPUTE = "ComputeFilter"


def compute(case: Case, host: Host, _: int) -> str:
    """A host whose nova-compute is down or disabled."""
    if case.compute.hosts is None:
        raise NotKnown("; ".join(case.compute.not_checked))
    return case.compute.why_not(host.uuid)


def extra_specs(case: Case, host: Host, _: int) -> str:
    """Extra specs that no aggregate of the host has."""
    for key, requirement in scoped_specs(case.spec.flavor.extra_specs):
        values = host.metadata(key)
        if not values:
            return f"no aggregate has {key}"
        if not any(matches(value, requirement) for value in values):
            return f"{key}={','.join(sorted(values))} is not {requirement}"
    return ""


def scoped_specs(specs: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """``(key, requirement)`` of the extra specs that are compared with aggregates."""
    for name, requirement in specs.items():
        scope, colon, key = name.partition(":")
        if not colon:
            yield name, requirement
        elif scope == AGGREGATE_SCOPE:
            yield key, requirement


def image_properties(case: Case, host: Host, _: int) -> str:
    """An image with other properties than the aggregates of the host."""
    options = case.options
    namespace = options.aggregate_image_properties_isolation_namespace
    prefix = f"{namespace}{options.aggregate_image_properties_isolation_separator}"
    keys = {
        key
        for aggregate in host.aggregates
        for key in aggregate.metadata
        if key.startswith(_OF_IMAGES) and (not namespace or key.startswith(prefix))
    }
    for key, value in sorted(case.image.items()) if keys else ():
        if key in keys and value not in host.metadata(key):
            return f"{key}={','.join(sorted(host.metadata(key)))}, the image has {value}"
    return ""


def tenants(case: Case, host: Host, release: int) -> str:
    """A project that is not in filter_tenant_id of the aggregates."""
    projects = {
        part.strip()
        for aggregate in host.aggregates
        for key, value in aggregate.metadata.items()
        if key == _TENANT_KEY or (key.startswith(_TENANT_KEY) and release >= _TENANT_KEYS_SINCE)
        for part in value.split(",")
    }
    if not projects:
        return ""
    if case.spec.project_id is None:
        raise NotKnown("the project is not known, and the host accepts only some")
    return "" if case.spec.project_id in projects else "only for other projects"


def flavor_names(case: Case, host: Host, _: int) -> str:
    """A flavor that is not in instance_type of the aggregates."""
    names = host.metadata(_TYPE_KEY)
    if not names:
        return ""
    if case.spec.flavor_name is None:
        raise NotKnown("the name of the flavor is not known, and the host accepts only some")
    return "" if case.spec.flavor_name in names else f"only for flavor {', '.join(sorted(names))}"


def number(case: Case, host: Host, _: int) -> str:
    """A host with max_instances_per_host servers."""
    return _over(host, case.options.max_instances_per_host)


def aggregate_number(case: Case, host: Host, _: int) -> str:
    """A host with max_instances_per_host servers of its aggregates."""
    texts = (aggregate.metadata.get(_NUMBER_KEY) for aggregate in host.aggregates)
    try:
        return _over(host, min(int(text) for text in texts if text is not None))
    except ValueError:
        return _over(host, case.options.max_instances_per_host)


def _over(host: Host, limit: int | None) -> str:
    if limit is None:
        return ""
    if host.servers is None:
        raise NotKnown("nova does not show the number of servers on the host")
    if host.servers < limit:
        return ""
    return f"{counted(host.servers, 'server')}, {_NUMBER_KEY}={limit}"


# Server groups

#: ``{policy: the filter}``.
GROUP_FILTERS = {
    "affinity": "ServerGroupAffinityFilter",
    "anti-affinity": "ServerGroupAntiAffinityFilter",
}


def _members(case: Case, policy: str) -> GroupMembers | None:
    """The group of the server, if it has this policy. Errors: NotKnown."""
    if isinstance(case.group, NotKnown):
        raise case.group
    is_meant = case.group is not None and case.group.group.policy == policy
    return case.group if is_meant else None


def anti_affinity(case: Case, host: Host, _: int) -> str:
    """A host with other members of the server group."""
    members = _members(case, "anti-affinity")
    if members is None:
        return ""
    return members.refusal(members.on_host(case.spec.uuid or "")[host.known_name])


def affinity(case: Case, host: Host, _: int) -> str:
    """A host without members of the server group."""
    members = _members(case, "affinity")
    return members.refusal(members.on_host()[host.known_name]) if members else ""


# What nova's API does not show

_NUMA_SPECS = ("hw:numa_nodes", "hw:cpu_policy", "hw:mem_page_size", "hw:cpu_realtime", "hw:pmem")
_NUMA_PROPERTIES = ("hw_numa_nodes", "hw_cpu_policy", "hw_mem_page_size")
_VERSION = "img_hv_requested_version"
_IMAGE_PROPERTIES = ("hw_architecture", "img_hv_type", "hw_vm_mode", _VERSION)
_SAME_ARCHITECTURE = {"amd64": "x86_64", "x86": "i686", "i386": "i686"}


def _hidden(compared: str, data: str) -> str:
    if compared:
        raise NotKnown(f"{compared}: nova does not show {data}")
    return ""


def pci(case: Case, _: Host, __: int) -> str:
    """A host without free PCI devices."""
    alias = case.spec.flavor.extra_specs.get("pci_passthrough:alias", "")
    return _hidden(alias, "free PCI devices of the host")


def numa(case: Case, _: Host, __: int) -> str:
    """A host without free CPUs or pages on its NUMA nodes."""
    keys = [key for key in _NUMA_SPECS if key in case.spec.flavor.extra_specs]
    if not keys:
        image = case.spec.image or {}
        keys = [key for key in _NUMA_PROPERTIES if key in image]
    return _hidden(", ".join(keys), "free CPUs and memory pages of the host's NUMA nodes")


#: The fields of a host that a key without a scope names, too; others are accepted.
_HOST_FIELDS = frozenset(
    {
        *("hypervisor_type", "hypervisor_version", "hypervisor_hostname", "cpu_info", "host"),
        *("vcpus_total", "vcpus_used", "free_ram_mb", "total_usable_ram_mb", "free_disk_mb"),
        *("disk_mb_used", "total_usable_disk_gb", "num_instances", "num_io_ops", "nodename"),
        *("supported_instances", "ram_allocation_ratio", "cpu_allocation_ratio", "stats"),
    }
)


def capabilities(case: Case, host: Host, _: int) -> str:
    """Other capabilities than the flavor needs."""
    hidden = []
    for name, requirement in sorted(case.spec.flavor.extra_specs.items()):
        key = name.removeprefix("capabilities:")
        if key == name and name not in _HOST_FIELDS:
            continue
        kind, version = host.node.hypervisor if host.node else ("", 0)
        shown = {"hypervisor_type": kind, "hypervisor_version": str(version or "")}.get(key)
        if not shown:
            hidden.append(name)
        elif not matches(shown, requirement):
            return f"{key} is {shown}, not {requirement}"
    return _hidden(", ".join(hidden), "the capabilities of the host")


def image(case: Case, host: Host, _: int) -> str:
    """Another architecture or hypervisor than the image needs."""
    if host.node and any(_is_like(host.node, source) for source in case.source_nodes):
        return ""
    compared = {key: case.image[key] for key in _IMAGE_PROPERTIES if key in case.image}
    default = case.options.image_properties_default_architecture
    if default:
        compared.setdefault("hw_architecture", default)
    if compared.keys() <= {_VERSION}:
        # Nova compares the version only beside another property.
        return ""
    wanted = compared.get("hw_architecture", "")
    is_same = host.node is not None and host.node.architecture == _SAME_ARCHITECTURE.get(
        wanted, wanted
    )
    if list(compared) == ["hw_architecture"] and is_same:
        return ""
    return _hidden(", ".join(compared), "the architectures and hypervisors of the host")


def _is_like(node: values.ComputeNode, source: values.ComputeNode) -> bool:
    """Whether a node supports what another one supports, as far as nova shows both."""
    (kind, version), (other, least) = node.hypervisor, source.hypervisor
    same = (kind, node.architecture) == (other, source.architecture)
    return bool(node.architecture) and same and version >= least


def aggregate_operations(case: Case, host: Host, _: int) -> str:
    """A host with too many builds and resizes."""
    is_given = host.metadata(_OPERATIONS_KEY) or case.options.enabled_filters is not None
    key = _OPERATIONS_KEY if is_given else ""
    return _hidden(key, "the builds, resizes and snapshots in progress")


def zone(case: Case, host: Host, _: int) -> str:
    """A host in another zone."""
    requested = case.spec.availability_zone or ""
    is_known = host.metadata(_ZONE_KEY) or requested == values.DEFAULT_ZONE
    return "" if is_known else _hidden(requested, "the zone of hosts in no aggregate")


def operations(_: Case, __: Host, ___: int) -> str:
    """A host with too many builds and resizes."""
    return _hidden(_OPERATIONS_KEY, "the builds, resizes and snapshots in progress")


def metrics(_: Case, __: Host, ___: int) -> str:
    """A host without the metrics that nova.conf weighs."""
    raise NotKnown("nova does not show the metrics of the hosts")


def isolated(case: Case, host: Host, _: int) -> str:
    """A host or an image that nova.conf isolates."""
    options = case.options
    hosts, images = options.isolated_hosts, options.isolated_images
    is_isolated = case.spec.image_id in images
    if (hosts or is_isolated) and host.known_name in hosts:
        is_open = is_isolated or not options.restrict_isolated_hosts_to_isolated_images
        return "" if is_open else "isolated_hosts: only for isolated_images"
    if is_isolated:
        return "the image is one of isolated_images, the host is none of isolated_hosts"
    return ""


#: The filters, in the order in which they are shown.
FILTER_RULES: tuple[Rule, ...] = (
    Rule(COMPUTE, Stage.FILTER, compute, by_host=True),
    Rule("AggregateInstanceExtraSpecsFilter", Stage.FILTER, extra_specs),
    Rule("AggregateImagePropertiesIsolation", Stage.FILTER, image_properties),
    Rule("AggregateMultiTenancyIsolation", Stage.FILTER, tenants),
    Rule("AggregateTypeAffinityFilter", Stage.FILTER, flavor_names),
    Rule("AggregateNumInstancesFilter", Stage.FILTER, aggregate_number, by_host=True),
    Rule("NumInstancesFilter", Stage.FILTER, number, by_host=True),
    Rule("ServerGroupAntiAffinityFilter", Stage.FILTER, anti_affinity, by_host=True),
    Rule("ServerGroupAffinityFilter", Stage.FILTER, affinity, by_host=True),
    Rule("ComputeCapabilitiesFilter", Stage.FILTER, capabilities),
    Rule("ImagePropertiesFilter", Stage.FILTER, image),
    Rule("NUMATopologyFilter", Stage.FILTER, numa, is_always=True),
    Rule("PciPassthroughFilter", Stage.FILTER, pci, is_always=True),
    Rule("AggregateIoOpsFilter", Stage.FILTER, aggregate_operations),
    # Nova 27 has this filter beside the request filter.
    Rule("AvailabilityZoneFilter", Stage.FILTER, zone),
)

#: Filters that nova.conf must enable, and that say nothing before it does.
CONFIGURED_RULES: tuple[Rule, ...] = (
    Rule("IoOpsFilter", Stage.FILTER, operations),
    Rule("IsolatedHostsFilter", Stage.FILTER, isolated, by_host=True),
    Rule("MetricsFilter", Stage.FILTER, metrics),
)

#: The filters that read the scheduler hints of a server.
OF_HINTS = frozenset(
    {"DifferentHostFilter", "JsonFilter", "SameHostFilter", "SimpleCIDRAffinityFilter"}
)

#: The filter that accepts every host.
ALL_HOSTS = "AllHostsFilter"

# The operators in the values of extra specs: ``>= 4``, ``<or> a <or> b``

_OR, _IN, _ALL_IN = "<or>", "<in>", "<all-in>"

_NUMBERS: Mapping[str, Callable[[float, float], bool]] = {
    "=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
}
_TEXTS: Mapping[str, Callable[[str, str], bool]] = {
    "s==": operator.eq,
    "s!=": operator.ne,
    "s>=": operator.ge,
    "s>": operator.gt,
    "s<=": operator.le,
    "s<": operator.lt,
}


def matches(value: str, requirement: str) -> bool:
    """Whether a value meets the requirement of an extra spec."""
    words = requirement.split()
    if not words:
        return value == requirement
    sign, operands = words[0], words[1:]
    if sign == _OR:
        return value in operands[::2]
    if sign == _IN:
        return bool(operands) and operands[0] in value
    if sign == _ALL_IN:
        return all(operand in value for operand in operands)
    if sign in _NUMBERS and operands:
        try:
            return _NUMBERS[sign](float(value), float(operands[0]))
        except ValueError:
            return False
    if sign in _TEXTS and operands:
        return _TEXTS[sign](value, operands[0])
    return value == requirement
