# SPDX-License-Identifier: Apache-2.0
"""What nova's scheduler reads to decide about a host.

Run this in the checkout with the Python of a release of nova:
``python -m lab.configuration_reads``. It prints a JSON object, ``{filters: {name: {options, host,
spec}}, request_filters: {name: options}, scheduler: options, default_filters}``: the options of
nova.conf that each filter and each request filter reads, and what a filter reads of the state of
the host and of the request, for probing requests on hosts with and without NUMA cells, PCI devices,
aggregates and metrics. ``scheduler`` has the options that the scheduler reads around them.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

# The first import selects the backend of threads.
import nova.api.openstack  # noqa: F401
from nova import exception, objects
from nova.pci import request as pci_request, stats as pci_stats
from nova.scheduler import filters, manager as scheduler_manager, request_filter
from nova.virt import hardware
from oslo_config import cfg

from lab import nova_process

#: Options that say how nova reaches its database and its log, and do not decide.
NOT_DECIDING = ("database.", "api_database.", "oslo_concurrency.", "profiler.", "DEFAULT.transport")
NOT_DECIDING += ("DEFAULT.control_exchange", "DEFAULT.thread_pool", "DEFAULT.host", "DEFAULT.rpc")
NOT_DECIDING += ("service_user.", "cache.", "placement.", "keystone")

FLAVORS: tuple[Mapping[str, str], ...] = (
    {},
    {"hw:cpu_policy": "dedicated", "hw:numa_nodes": "1", "hw:mem_page_size": "large"},
    {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"},
    {"capabilities:hypervisor_type": "QEMU", "capabilities:cpu_info:vendor": "Intel"},
    {"aggregate_instance_extra_specs:ssd": "true", "ssd": "true"},
    {"pci_passthrough:alias": "gpu:1"},
    {"hw:tpm_version": "2.0", "hw:tpm_secret_security": "host"},
    {"hw:mem_encryption": "true"},
    {"hw:maxphysaddr_mode": "emulate", "hw:maxphysaddr_bits": "42", "hw:watchdog_action": "reset"},
    {"hw:locked_memory": "true", "hw:viommu_model": "virtio", "hw:mem_page_size": "small"},
    {"resources:VGPU": "1", "trait:CUSTOM_A": "required", "accel:device_profile": "a"},
)
IMAGES: tuple[Mapping[str, str], ...] = (
    {},
    {"hw_architecture": "aarch64"},
    {"img_hv_type": "kvm", "hw_vm_mode": "hvm", "img_hv_requested_version": ">=2.0"},
    {
        "hw_firmware_type": "uefi",
        "hw_machine_type": "q35",
        "os_type": "linux",
        "hw_disk_bus": "virtio",
        "hw_video_model": "virtio",
        "hw_vif_model": "virtio",
    },
)
HINTS: tuple[Mapping[str, list[str]], ...] = (
    {},
    {
        "same_host": [nova_process.UUID.format(1, 1)],
        "different_host": [nova_process.UUID.format(1, 1)],
        "query": ['[">", "$free_ram_mb", 1]'],
        "build_near_host_ip": ["127.0.0.1"],
        "cidr": ["/24"],
    },
)
GROUPS = (None, "affinity", "anti-affinity", "soft-affinity")
METADATA = {
    "ssd": "true",
    "filter_tenant_id": "acme",
    "availability_zone": "nova",
    "instance_type": "f",
    "max_instances_per_host": "5",
    "max_io_ops_per_host": "5",
    "hw_disk_bus": "virtio",
    "cpu_allocation_ratio": "2.0",
    "disk_weight_multiplier": "1",
}
#: The probing requests also meet these values, which some filters ask first.
OVERRIDES = (
    {},
    {
        ("filter_scheduler", "isolated_images"): ["i"],
        ("filter_scheduler", "isolated_hosts"): ["host-0"],
        ("filter_scheduler", "aggregate_image_properties_isolation_namespace"): "hw",
        ("filter_scheduler", "image_properties_default_architecture"): "x86_64",
        ("scheduler", "limit_tenants_to_placement_aggregate"): True,
        ("scheduler", "placement_aggregate_required_for_tenants"): True,
        ("scheduler", "query_placement_for_routed_network_aggregates"): True,
        ("scheduler", "query_placement_for_image_type_support"): True,
        ("scheduler", "enable_isolated_aggregate_filtering"): True,
        ("scheduler", "image_metadata_prefilter"): True,
        ("filter_scheduler", "pci_in_placement"): True,
        ("metrics", "weight_setting"): ["cpu.percent=1.0"],
    },
)


@contextlib.contextmanager
def recorded_options() -> Iterator[set[str]]:
    """The options that are read meanwhile."""
    read: set[str] = set()
    own = cfg.ConfigOpts._get

    def get(conf: Any, name: str, group: Any = None, namespace: Any = None) -> Any:
        group_name = getattr(group, "name", group) or "DEFAULT"
        value = own(conf, name, group, namespace)
        is_group = isinstance(value, cfg.ConfigOpts.GroupAttr)
        if not is_group and not f"{group_name}.{name}".startswith(NOT_DECIDING):
            read.add(f"{group_name}.{name}")
        return value

    with mock.patch.object(cfg.ConfigOpts, "_get", get):
        yield read


class Recorder:
    """Stands for a value of nova, and records the names of what is read of it."""

    def __init__(self, value: Any, read: set[str], prefix: str = "", depth: int = 0) -> None:
        self.__dict__["_recorded"] = (value, read, prefix, depth)

    def __getattr__(self, name: str) -> Any:
        value, read, prefix, depth = self.__dict__["_recorded"]
        attribute = getattr(value, name)
        read.add(prefix + name + "()" * callable(attribute))
        # The parts of the request that decide are the image's properties and the flavor.
        is_inner = depth < 2 and isinstance(
            attribute, (objects.ImageMeta, objects.ImageMetaProps, objects.Flavor)
        )
        return Recorder(attribute, read, f"{prefix}{name}.", depth + 1) if is_inner else attribute

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["_recorded"][0], name, value)

    def __contains__(self, name: str) -> bool:
        value, read, prefix, _ = self.__dict__["_recorded"]
        read.add(prefix + name)
        return name in value


def requests(process: nova_process.Process) -> Iterator[Any]:
    """The probing requests: each flavor, image, set of hints and group beside plain others."""
    plain: tuple[Any, ...] = ({}, {}, {}, None)
    drawn: list[tuple[Any, ...]] = []
    for place, values in enumerate((FLAVORS, IMAGES, HINTS, GROUPS)):
        for value in values:
            drawn.append((*plain[:place], value, *plain[place + 1 :]))
    drawn += [(*pair, {}, None) for pair in itertools.product(FLAVORS[1:], IMAGES[1:])]
    for words in drawn:
        # Nova refuses some flavors with some images.
        with contextlib.suppress(exception.NovaException):
            yield request(process, *words)


def request(
    process: nova_process.Process,
    specs: Mapping[str, str],
    image: Mapping[str, str],
    hints: Mapping[str, list[str]],
    policy: str | None,
) -> Any:
    flavor = objects.Flavor(
        process.admin,
        name="f",
        flavorid="f",
        vcpus=2,
        memory_mb=2048,
        root_gb=20,
        ephemeral_gb=0,
        swap=0,
        extra_specs=dict(specs),
        id=1,
    )
    meta = objects.ImageMeta.from_dict({"id": "i", "name": "i", "properties": dict(image)})
    group = policy and objects.InstanceGroup(
        policy=policy,
        hosts=["host-1"],
        members=[],
        rules={},
        uuid=nova_process.UUID.format(2, 1),
    )
    return objects.RequestSpec(
        process.admin,
        flavor=flavor,
        image=meta,
        is_bfv=False,
        num_instances=1,
        instance_uuid=nova_process.UUID.format(1, 2),
        availability_zone="nova",
        project_id=nova_process.PROJECT,
        user_id="u",
        requested_resources=[],
        request_level_params=objects.RequestLevelParams(),
        requested_networks=objects.NetworkRequestList(objects=[]),
        scheduler_hints=dict(hints),
        force_hosts=None,
        force_nodes=None,
        ignore_hosts=None,
        requested_destination=None,
        retry=None,
        instance_group=group or None,
        limits=objects.SchedulerLimits(),
        security_groups=objects.SecurityGroupList(objects=[]),
        numa_topology=hardware.numa_get_constraints(flavor, meta),
        pci_requests=pci_request.get_pci_requests_from_flavor(flavor),
    )


def candidate(uuid: str) -> Mapping[str, Any]:
    return nova_process.candidates({uuid: {"VCPU": 2}})["allocation_requests"][0]


def numa_topology() -> Any:
    cell = objects.NUMACell(
        id=0,
        cpuset={0, 1, 2, 3},
        pcpuset={4, 5, 6, 7},
        memory=8192,
        cpu_usage=0,
        memory_usage=0,
        pinned_cpus=set(),
        siblings=[{0, 1}, {2, 3}, {4, 5}, {6, 7}],
        mempages=[objects.NUMAPagesTopology(size_kb=4, total=1 << 20, used=0, reserved=0)],
        network_metadata=objects.NetworkMetadata(physnets=set(), tunneled=False),
        socket=0,
    )
    return objects.NUMATopology(cells=[cell])


def states(process: nova_process.Process) -> list[Any]:
    """The states of three hosts, as the scheduler reads them; the second and third have more."""
    plain = request(process, {}, {}, {}, None)
    uuids = [node.uuid for node in process.nodes.values()]
    manager = process.scheduler.host_manager
    found = list(manager.get_host_states_by_uuids(process.admin, uuids, plain))
    for number, state in enumerate(found):
        state.aggregates = [
            objects.Aggregate(process.admin, id=1, metadata=METADATA, hosts=[state.host])
        ] * bool(number)
        state.numa_topology = numa_topology() if number else None
        state.pci_stats = pci_stats.PciDeviceStats(state.numa_topology)
        state.metrics = objects.MonitorMetricList(objects=[])
        state.stats = {"cpu_info": json.dumps({"vendor": "Intel"})}
        state.instances = {}
    return found


def observe(
    classes: Mapping[str, Any], process: nova_process.Process
) -> dict[str, dict[str, list[str]]]:
    """What each filter reads."""
    specs, hosts = list(requests(process)), states(process)
    read: dict[str, dict[str, list[str]]] = {}
    for name, filter_class in sorted(classes.items()):
        of_host: set[str] = set()
        of_spec: set[str] = set()
        with recorded_options() as options:
            for spec in specs:
                # Some filters read their options when they are made.
                judge = filter_class()
                for host in hosts:
                    host.allocation_candidates = [candidate(host.uuid)]
                    with contextlib.suppress(Exception):
                        judge.host_passes(Recorder(host, of_host), Recorder(spec, of_spec))
        read[name] = {
            "options": sorted(options),
            "host": sorted(of_host),
            "spec": sorted(of_spec),
        }
    return read


def observe_request_filters(process: nova_process.Process) -> dict[str, list[str]]:
    """The options that each request filter reads."""
    read = {}
    for function in request_filter.ALL_REQUEST_FILTERS:
        specs = list(requests(process))
        with recorded_options() as options:
            for spec in specs:
                with contextlib.suppress(Exception):
                    function(process.admin, spec)
        read[function.__name__] = sorted(options)
    return read


def observe_scheduler(process: nova_process.Process) -> list[str]:
    """The options that the scheduler reads while it places the probing requests."""
    hosts = {node.uuid: {"VCPU": 2} for node in process.nodes.values()}
    process.peers.candidates = lambda _: nova_process.candidates(hosts)
    with recorded_options() as options:
        # Some options are read at the start of the service.
        process.scheduler = scheduler_manager.SchedulerManager()
        for spec in requests(process):
            with contextlib.suppress(Exception):
                nova_process.unexpected(
                    process.scheduler.select_destinations,
                    process.admin,
                    None,
                    None,
                    spec,
                    [spec.instance_uuid],
                    return_objects=True,
                    return_alternates=True,
                )
    return sorted(options)


def merged(first: Any, other: Any) -> Any:
    """Both values; lists become the union."""
    if isinstance(first, Mapping):
        return {key: merged(first.get(key, []), other[key]) for key in other}
    return sorted({*first, *other})


def main() -> None:
    process = nova_process.Process()
    for number in range(3):
        process.create_host(f"host-{number}", number + 1)
        process.set_service(f"host-{number}")
    alias = {"name": "gpu", "vendor_id": "10de", "product_id": "1eb8", "device_type": "type-PCI"}
    cfg.CONF.set_override("alias", [json.dumps(alias)], group="pci")
    classes = {cls.__name__: cls for cls in filters.all_filters()}
    result: Any = collections.defaultdict(list)
    for overrides in OVERRIDES:
        for (group, name), value in overrides.items():
            with contextlib.suppress(cfg.NoSuchOptError):
                cfg.CONF.set_override(name, value, group=group)
        current = {
            "filters": observe(classes, process),
            "request_filters": observe_request_filters(process),
            "scheduler": observe_scheduler(process),
        }
        result = merged(result, current) if result else current
    json.dump(
        {**result, "default_filters": sorted(cfg.CONF.filter_scheduler.enabled_filters)}, sys.stdout
    )


main()
