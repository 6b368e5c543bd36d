# SPDX-License-Identifier: Apache-2.0
"""The filters of nova's scheduler that depend on data of nova's API, for one host. Pure.

Each rule says why a filter refuses a host; an empty text accepts it. ``ServerHosts`` of
workflows.compute_nodes has the rule of the ComputeFilter. lab/tests/test_filters.py
compares the rules for host aggregates with nova's own filters.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from osc_placement.model.name import counted
from osc_placement.nova import values
from osc_placement.scheduling import request, traits

#: The scope of the extra specs that only the first filter compares.
AGGREGATE_SCOPE = "aggregate_instance_extra_specs"
_TENANT_KEY = "filter_tenant_id"
#: From this release on the filter also reads keys that begin with it.
_TENANT_KEYS_SINCE = 30
_TYPE_KEY = "instance_type"
_NUMBER_KEY = "max_instances_per_host"
_OPERATIONS_KEY = "max_io_ops_per_host"


@dataclasses.dataclass(frozen=True, slots=True)
class Host:
    """A compute host: its aggregates, its number of running servers, and nova.conf's limit of it.

    ``servers`` is None if nova does not show the number; ``limit`` without a nova.conf. ``release``
    is that of nova's scheduler.
    """

    aggregates: Sequence[values.HostAggregate] = ()
    servers: int | None = None
    limit: int | None = None
    release: int = traits.RELEASES[-1]

    def metadata(self, key: str) -> set[str]:
        """The values of a key in all aggregates, split at commas."""
        return {
            part.strip()
            for each in self.aggregates
            if key in each.metadata
            for part in each.metadata[key].split(",")
        }


Hosts = Iterable[Host]

#: Why a filter refuses a host; empty if it accepts it.
Rule = Callable[[request.ServerSpec, Host], str]


def extra_specs(server: request.ServerSpec, host: Host) -> str:
    """AggregateInstanceExtraSpecsFilter: extra specs without another scope are in an aggregate."""
    for key, requirement in scoped_specs(server.flavor.extra_specs):
        found = host.metadata(key)
        if not found:
            return f"no aggregate has {key}"
        if not any(matches(value, requirement) for value in found):
            return f"{key}={','.join(sorted(found))} is not {requirement}"
    return ""


def scoped_specs(specs: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """``(key, requirement)`` of the extra specs that are compared with aggregates."""
    for name, requirement in specs.items():
        scope, colon, key = name.partition(":")
        if not colon:
            yield name, requirement
        elif scope == AGGREGATE_SCOPE:
            yield key, requirement


def image_properties(server: request.ServerSpec, host: Host) -> str:
    """AggregateImagePropertiesIsolation: properties of the image equal those of aggregates."""
    keys = {key for each in host.aggregates for key in each.metadata}
    for key, value in sorted((server.image or {}).items()):
        if key in keys and value not in host.metadata(key):
            return f"{key}={','.join(sorted(host.metadata(key)))}, the image has {value}"
    return ""


def tenants(server: request.ServerSpec, host: Host) -> str:
    """AggregateMultiTenancyIsolation: an aggregate with projects accepts only these."""
    found = {
        part.strip()
        for each in host.aggregates
        for key, value in each.metadata.items()
        if key == _TENANT_KEY
        or (key.startswith(_TENANT_KEY) and host.release >= _TENANT_KEYS_SINCE)
        for part in value.split(",")
    }
    if not found or server.project_id in found:
        return ""
    return "only for other projects"


def flavor_names(server: request.ServerSpec, host: Host) -> str:
    """AggregateTypeAffinityFilter: an aggregate with flavors accepts only these."""
    found = host.metadata(_TYPE_KEY)
    if not found or server.flavor_name in found:
        return ""
    return f"only for flavor {', '.join(sorted(found))}"


def number(_: request.ServerSpec, host: Host) -> str:
    """NumInstancesFilter: fewer servers than the limit of nova.conf."""
    return _over(host, host.limit)


def aggregate_number(_: request.ServerSpec, host: Host) -> str:
    """AggregateNumInstancesFilter: the least limit of the aggregates, or that of nova.conf.

    The latter counts without aggregates that have one, and if one of the values is no number.
    """
    texts = (each.metadata.get(_NUMBER_KEY) for each in host.aggregates)
    try:
        return _over(host, min(int(text) for text in texts if text is not None))
    except ValueError:
        return _over(host, host.limit)


def _over(host: Host, limit: int | None) -> str:
    if host.servers is None or limit is None or host.servers < limit:
        return ""
    return f"{counted(host.servers, 'server')}, {_NUMBER_KEY}={limit}"


#: ``{filter: its rule}``
RULES: Mapping[str, Rule] = {
    "AggregateInstanceExtraSpecsFilter": extra_specs,
    "AggregateImagePropertiesIsolation": image_properties,
    "AggregateMultiTenancyIsolation": tenants,
    "AggregateTypeAffinityFilter": flavor_names,
    "AggregateNumInstancesFilter": aggregate_number,
    "NumInstancesFilter": number,
}

_NUMA_SPECS = ("hw:numa_nodes", "hw:cpu_policy", "hw:mem_page_size", "hw:cpu_realtime", "hw:pmem")
_NUMA_PROPERTIES = ("hw_numa_nodes", "hw_cpu_policy", "hw_mem_page_size")
_IMAGE_PROPERTIES = ("hw_architecture", "img_hv_type", "hw_vm_mode", "img_hv_requested_version")


#: What is not known of some servers, and the filters that refuse hosts without it.
NEEDED: Mapping[str, tuple[str, str]] = {
    "AggregateMultiTenancyIsolation": ("project_id", "the project"),
    "AggregateTypeAffinityFilter": ("flavor_name", "the name of the flavor"),
}


def _pci(server: request.ServerSpec, _: Hosts) -> str:
    return server.flavor.extra_specs.get("pci_passthrough:alias", "")


def _numa(server: request.ServerSpec, _: Hosts) -> str:
    specs = [key for key in _NUMA_SPECS if key in server.flavor.extra_specs]
    image = [key for key in _NUMA_PROPERTIES if key in (server.image or {})]
    return ", ".join([*specs, *image])


def _capabilities(server: request.ServerSpec, _: Hosts) -> str:
    keys = (key for key in server.flavor.extra_specs if key.startswith("capabilities:"))
    return ", ".join(sorted(keys))


def _image(server: request.ServerSpec, _: Hosts) -> str:
    return ", ".join(key for key in _IMAGE_PROPERTIES if key in (server.image or {}))


def _operations(_: request.ServerSpec, hosts: Hosts) -> str:
    return _OPERATIONS_KEY if any(host.metadata(_OPERATIONS_KEY) for host in hosts) else ""


def _zone(server: request.ServerSpec, hosts: Hosts) -> str:
    """The zone that a server asks for, if a host is in no zone: nova.conf names its default one."""
    zone = server.availability_zone or ""
    is_known = all(host.metadata("availability_zone") for host in hosts)
    return "" if is_known or zone == values.DEFAULT_ZONE else zone


#: ``{filter: (what it compares of this server or these hosts, the data that nova does not show)}``.
#: A filter that compares nothing accepts every host.
HIDDEN: Mapping[str, tuple[Callable[[request.ServerSpec, Hosts], str], str]] = {
    "ComputeCapabilitiesFilter": (_capabilities, "the capabilities of the host"),
    "ImagePropertiesFilter": (_image, "the architectures and hypervisors of the host"),
    "NUMATopologyFilter": (_numa, "free CPUs and memory pages of the host's NUMA nodes"),
    "PciPassthroughFilter": (_pci, "free PCI devices of the host"),
    "AggregateIoOpsFilter": (_operations, "the builds, resizes and snapshots in progress"),
    # Nova 27 has this filter beside the request filter.
    "AvailabilityZoneFilter": (_zone, "the zone of hosts in no aggregate"),
}

#: ``{filter: why it is not checked}``, for the filters that nova.conf must enable.
UNSEEN: Mapping[str, str] = {
    "AggregateIoOpsFilter": f"nova does not show {HIDDEN['AggregateIoOpsFilter'][1]}",
    "IoOpsFilter": f"nova does not show {HIDDEN['AggregateIoOpsFilter'][1]}",
    "IsolatedHostsFilter": "isolated_hosts and isolated_images of nova.conf are not read",
    "MetricsFilter": "nova does not show the metrics of the hosts",
}

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

#: Words of a requirement that are not values.
OPERATORS = frozenset({_OR, _IN, _ALL_IN, *_NUMBERS, *_TEXTS})


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
        return all(each in value for each in operands)
    if sign in _NUMBERS and operands:
        try:
            return _NUMBERS[sign](float(value), float(operands[0]))
        except ValueError:
            return False
    if sign in _TEXTS and operands:
        return _TEXTS[sign](value, operands[0])
    return value == requirement
