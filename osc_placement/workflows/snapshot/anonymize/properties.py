"""Replaces the names in extra specs and image properties, and leaves out other ones. Pure.

A value that is a number, a switch, a CPU mask or a word of nova's stays.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from osc_placement.engine import standard
from osc_placement.nova import flavor
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
        "hw:cpu_dedicated_mask",
        "hw:cpu_policy",
        "hw:cpu_realtime",
        "hw:cpu_realtime_mask",
        "hw:cpu_thread_policy",
        "hw:emulator_threads_policy",
        "hw:ephemeral_encryption",
        "hw:ephemeral_encryption_format",
        "hw:maxphysaddr_mode",
        "hw:mem_encryption",
        "hw:mem_encryption_model",
        "hw:mem_page_size",
        "hw:numa_nodes",
        "hw:sound_model",
        "hw:tpm_model",
        "hw:tpm_secret_security",
        "hw:tpm_version",
        "hw:virtio_packed_ring",
        "os:secure_boot",
    }
)
IMAGE_PROPERTIES = frozenset(
    {
        "hw_architecture",
        "hw_cdrom_bus",
        "hw_cpu_policy",
        "hw_cpu_realtime_mask",
        "hw_cpu_thread_policy",
        "hw_disk_bus",
        "hw_emulation_architecture",
        "hw_ephemeral_encryption",
        "hw_ephemeral_encryption_format",
        "hw_firmware_stateless",
        "hw_firmware_type",
        "hw_machine_type",
        "hw_maxphysaddr_mode",
        "hw_mem_encryption",
        "hw_mem_encryption_model",
        "hw_mem_page_size",
        "hw_numa_nodes",
        "hw_sound_model",
        "hw_tpm_model",
        "hw_tpm_version",
        "hw_video_model",
        "hw_vif_model",
        "hw_virtio_packed_ring",
        "hw_vm_mode",
        "img_hv_requested_version",
        "img_hv_type",
        "os_secure_boot",
    }
)

_NUMBERS = re.compile(r"[\d.,^\s-]*")
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
        elif key in EXTRA_SPECS:
            yield key, value(names, text)


def image_properties(names: Names, found: Mapping[str, Any]) -> dict[str, str]:
    """The properties of an image."""
    made = {}
    for key, given in found.items():
        if key.startswith("trait:"):
            made[f"trait:{names.trait(key.removeprefix('trait:'))}"] = value(names, str(given))
        elif key in IMAGE_PROPERTIES:
            made[key] = value(names, str(given))
    return made


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
    made = names.resource_class(flavor.pmem_class(label))
    return made.removeprefix(flavor.PMEM_PREFIX)


def _alias(names: Names, alias: str) -> str:
    name, colon, count = alias.partition(":")
    if not name.strip():
        return alias
    return f"{names.of(Kind.VALUE, name.strip())}{colon}{value(names, count) if count else count}"
