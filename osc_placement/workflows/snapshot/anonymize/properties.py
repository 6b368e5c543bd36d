"""Replaces the names in extra specs, image properties and the metadata of host aggregates. Pure.

A value that is a number, a switch, a CPU mask or a word of nova's stays. What nova's scheduler does
not compare is left out.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from osc_placement.engine import standard
from osc_placement.nova import filters, flavor
from osc_placement.workflows.snapshot.anonymize.key import Kind
from osc_placement.workflows.snapshot.anonymize.names import Names

PMEM, PCI_ALIAS, DEVICE_PROFILE = "hw:pmem", "pci_passthrough:alias", "accel:device_profile"

#: The extra specs and image properties that nova's request and its filters depend on.
EXTRA_SPECS = frozenset(
    {
        PMEM,
        PCI_ALIAS,
        DEVICE_PROFILE,
        "group_policy",
        "hw:cpu_cores",
        "hw:cpu_dedicated_mask",
        "hw:cpu_max_cores",
        "hw:cpu_max_sockets",
        "hw:cpu_max_threads",
        "hw:cpu_policy",
        "hw:cpu_realtime",
        "hw:cpu_realtime_mask",
        "hw:cpu_sockets",
        "hw:cpu_thread_policy",
        "hw:cpu_threads",
        "hw:emulator_threads_policy",
        "hw:ephemeral_encryption",
        "hw:ephemeral_encryption_format",
        "hw:locked_memory",
        "hw:maxphysaddr_mode",
        "hw:mem_encryption",
        "hw:mem_encryption_model",
        "hw:mem_page_size",
        "hw:numa_cpus",
        "hw:numa_mem",
        "hw:numa_nodes",
        "hw:pci_numa_affinity_policy",
        "hw:pmu",
        "hw:serial_port_count",
        "hw:sound_model",
        "hw:tpm_model",
        "hw:tpm_secret_security",
        "hw:tpm_version",
        "hw:vif_multiqueue_enabled",
        "hw:virtio_packed_ring",
        "os:secure_boot",
    }
)
IMAGE_PROPERTIES = frozenset(
    {
        "hw_architecture",
        "hw_cdrom_bus",
        "hw_cpu_cores",
        "hw_cpu_max_cores",
        "hw_cpu_max_sockets",
        "hw_cpu_max_threads",
        "hw_cpu_policy",
        "hw_cpu_realtime_mask",
        "hw_cpu_sockets",
        "hw_cpu_thread_policy",
        "hw_cpu_threads",
        "hw_disk_bus",
        "hw_emulation_architecture",
        "hw_ephemeral_encryption",
        "hw_ephemeral_encryption_format",
        "hw_firmware_stateless",
        "hw_firmware_type",
        "hw_locked_memory",
        "hw_machine_type",
        "hw_maxphysaddr_mode",
        "hw_mem_encryption",
        "hw_mem_encryption_model",
        "hw_mem_page_size",
        "hw_numa_cpus",
        "hw_numa_mem",
        "hw_numa_nodes",
        "hw_pci_numa_affinity_policy",
        "hw_pmu",
        "hw_serial_port_count",
        "hw_sound_model",
        "hw_tpm_model",
        "hw_tpm_version",
        "hw_video_model",
        "hw_vif_model",
        "hw_vif_multiqueue_enabled",
        "hw_viommu_model",
        "hw_virtio_packed_ring",
        "hw_vm_mode",
        "img_hv_requested_version",
        "img_hv_type",
        "os_secure_boot",
    }
)

_TENANT = "filter_tenant_id"
_FLAVORS = "instance_type"
#: The keys of metadata that nova's filters read by name, besides properties of images.
METADATA = frozenset(
    {
        _FLAVORS,
        "cpu_allocation_ratio",
        "disk_allocation_ratio",
        "max_instances_per_host",
        "max_io_ops_per_host",
        "ram_allocation_ratio",
    }
)

#: The scopes of extra specs that nova's filters compare with metadata and with capabilities.
_SCOPES = ("aggregate_instance_extra_specs", "capabilities")

_NUMBERS = re.compile(r"[\d.,^\s-]*")
#: ``hw:numa_cpus.1`` and ``hw_numa_mem.0`` are properties of one NUMA node.
_NODE = re.compile(r"\.\d+$")
_MACHINE = re.compile(r"(?:pc|virt|(?:pc-)?(?:q35|i440fx))(?:-[\d.]+)?")
_SWITCHES = ("1", "t", "true", "on", "y", "yes", "0", "f", "false", "off", "n", "no")
_POLICIES = (
    "dedicated",
    "shared",
    "mixed",
    "isolate",
    "share",
    "prefer",
    "require",
    "none",
    "required",
    "forbidden",
    "optional",
    "disabled",
    "legacy",
    "preferred",
    "socket",
    "passthrough",
    "emulate",
    "amd-sev",
    "amd-sev-es",
    "virtio",
    "uefi",
    "bios",
    "tpm-tis",
    "tpm-crb",
    "user",
    "host",
    "deployment",
    "plain",
    "luks",
    "luksv2",
    "amd64",
    "i386",
)
_WORDS = frozenset({*_SWITCHES, *_POLICIES})


def extra_specs(names: Names, specs: Mapping[str, Any]) -> dict[str, str]:
    """The extra specs of a flavor."""
    return dict(_extra_specs(names, specs))


def _extra_specs(names: Names, specs: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, given in specs.items():
        text = str(given)
        group = flavor.parse_group_key(key)
        if group is not None:
            suffix = group.suffix
            if suffix and not _is_number(suffix):
                suffix = names.of(Kind.GROUP, suffix)
            replace = names.trait if group.kind == "trait" else names.resource_class
            yield f"{group.kind}{suffix}:{replace(group.what)}", value(names, text)
        elif key == PMEM:
            yield key, ",".join(_pmem_label(names, label) for label in text.split(","))
        elif key == PCI_ALIAS:
            yield key, ",".join(_alias(names, alias) for alias in text.split(","))
        elif _NODE.sub("", key) in EXTRA_SPECS:
            yield key, _requirement(names, key, text)
        else:
            scope, colon, rest = key.rpartition(":")
            if not colon or scope in _SCOPES:
                yield f"{scope}{colon}{_key(names, rest)}", _requirement(names, rest, text)


def _requirement(names: Names, key: str, text: str) -> str:
    """The value of an extra spec, whose operators stay: ``<or> a <or> b``."""
    operators = filters.OPERATORS
    words = text.split()
    if not words or words[0] not in operators:
        return _value_of(names, key, text)
    return " ".join(each if each in operators else _value_of(names, key, each) for each in words)


def metadata(names: Names, found: Mapping[str, str]) -> dict[str, str]:
    """The metadata of a host aggregate; equal keys and values of flavors and images stay equal."""
    return {_metadata_key(names, key): _metadata(names, key, found[key]) for key in found}


def _metadata_key(names: Names, key: str) -> str:
    if key == "availability_zone":
        return key
    if key.startswith(_TENANT):
        suffix = key.removeprefix(_TENANT)
        return _TENANT + (names.of(Kind.GROUP, suffix) if suffix else "")
    if key.startswith("trait:"):
        return f"trait:{names.trait(key.removeprefix('trait:'))}"
    return _key(names, key)


def _metadata(names: Names, key: str, text: str) -> str:
    if key == "availability_zone":
        return names.of(Kind.ZONE, text)
    parts = [each.strip() for each in text.split(",")]
    if key.startswith(_TENANT):
        return ",".join(map(names.project, parts))
    return ",".join(_value_of(names, key, each) for each in parts)


def _value_of(names: Names, key: str, text: str) -> str:
    """The value of a key, equal in metadata, extra specs and properties of images."""
    return names.of(Kind.FLAVOR, text) if key == _FLAVORS else value(names, text)


def _key(names: Names, key: str) -> str:
    """A key that nova defines, unchanged; the pseudonym of any other."""
    name = _NODE.sub("", key)
    is_defined = name in EXTRA_SPECS or name in IMAGE_PROPERTIES or name in METADATA
    return key if is_defined else names.of(Kind.VALUE, key)


def image_properties(names: Names, found: Mapping[str, Any]) -> dict[str, str]:
    """The properties of an image."""
    replaced = {}
    for key, given in found.items():
        if key.startswith("trait:"):
            replaced[f"trait:{names.trait(key.removeprefix('trait:'))}"] = value(names, str(given))
        elif _NODE.sub("", key) in IMAGE_PROPERTIES or key in names.compared:
            replaced[_key(names, key)] = _value_of(names, key, str(given))
    return replaced


def value(names: Names, text: str) -> str:
    """A value that nova defines, unchanged; the pseudonym of any other."""
    word = text.strip().lower()
    is_plain = word in _WORDS or _NUMBERS.fullmatch(word) or _MACHINE.fullmatch(word)
    if is_plain or f"_{word.upper().replace('-', '_')}" in _trait_endings():
        return text
    return names.of(Kind.VALUE, text)


@functools.cache
def _trait_endings() -> frozenset[str]:
    """``_VIRTIO``, ``_X86_64``: nova makes standard traits of some values."""
    return frozenset(
        name[at:] for name in standard.traits() for at, char in enumerate(name) if char == "_"
    )


def _is_number(suffix: str) -> bool:
    return suffix.removeprefix("_").isdigit()


def _pmem_label(names: Names, label: str) -> str:
    """The label whose resource class is the pseudonym of the label's."""
    if not label.strip():
        return label
    name = names.resource_class(flavor.pmem_class(label))
    return name.removeprefix(flavor.PMEM_PREFIX)


def _alias(names: Names, alias: str) -> str:
    name, colon, count = alias.partition(":")
    if not name.strip():
        return alias
    return f"{names.of(Kind.VALUE, name.strip())}{colon}{value(names, count) if count else count}"
