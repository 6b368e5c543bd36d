# SPDX-License-Identifier: Apache-2.0
"""The resources that nova requests for a server, from its flavor and image. Pure.

The rules are those of nova 34 (``nova.scheduler.utils.ResourceRequest``);
lab/tests/test_flavor.py compares the results. nova-manage ignores image properties.
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from osc_placement.engine import standard
from osc_placement.model import allocation, name
from osc_placement.model.candidate import CandidateQuery, RequestGroup
from osc_placement.nova import topology

FLAVOR = "flavor"
EXTRA_SPECS = "flavor extra specs"
DISKS = "swap and ephemeral disk"
PINNING = "CPU pinning"
ENCRYPTED_MEMORY = "memory encryption"
PERSISTENT_MEMORY = "persistent memory"


class Source(NamedTuple):
    """A step of nova, and the values that it reads: ``("CPU pinning", "hw:cpu_policy=mixed")``."""

    step: str
    origin: str

    def __str__(self) -> str:
        return f"{self.step}: {self.origin}" if self.origin else self.step


VCPU, PCPU, MEMORY_MB, DISK_GB = "VCPU", "PCPU", "MEMORY_MB", "DISK_GB"
MEM_ENCRYPTION_CONTEXT = "MEM_ENCRYPTION_CONTEXT"

#: The classes of compute nodes; few other providers have them.
HOST_CLASSES = frozenset({VCPU, PCPU, MEMORY_MB})

#: The beginning of the resource classes of persistent memory.
PMEM_PREFIX = f"{name.CUSTOM_PREFIX}PMEM_NAMESPACE_"

#: An extra spec ``resources<suffix>:<class>`` or ``trait<suffix>:<trait>``.
_KEY = re.compile(r"(?P<kind>resources|trait)(?P<suffix>[a-zA-Z0-9_-]{0,64}):(?P<what>.*)")
_NOT_A_CLASS = re.compile(r"[^0-9A-Z]+")


@dataclasses.dataclass(frozen=True, slots=True)
class Flavor:
    """The flavor embedded in a server: ram and swap in MiB, disks in GiB."""

    vcpus: int
    ram: int
    disk: int
    ephemeral: int = 0
    swap: int = 0
    extra_specs: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class ServerRequest:
    """The resource request of a server, as far as it can be computed.

    ``groups`` is ``{suffix: group}``, each with resources; a whole tree may satisfy the group
    with the suffix "". ``isolate`` is group_policy=isolate. No extra spec of a flavor sets
    same_subtree.

    ``unknown`` are reasons why the request is incomplete: nova asks another service, or would
    refuse the flavor. ``undecided`` is ``{resource class: reason}`` for classes that depend on
    hidden image properties; a host without such a class decides the question. Devices of
    ``pci_aliases`` are allocated only if nova reports PCI devices to Placement.
    ``needs_cyborg`` is the reason of ``unknown`` for a device profile. ``sources`` is ``{(suffix,
    resource class): source}``.
    """

    groups: Mapping[str, RequestGroup] = dataclasses.field(default_factory=dict)
    isolate: bool = False
    unknown: tuple[str, ...] = ()
    undecided: Mapping[str, str] = dataclasses.field(default_factory=dict)
    pci_aliases: tuple[str, ...] = ()
    needs_cyborg: str = ""
    sources: Mapping[tuple[str, str], Source] = dataclasses.field(
        default_factory=dict, compare=False
    )

    @property
    def is_granular(self) -> bool:
        """Whether the request has groups with a suffix, each for one provider of a tree."""
        return any(self.groups)

    def total(self) -> dict[str, int]:
        """``{resource class: amount}`` over all groups."""
        return allocation.add_resources(*(group.resources for group in self.groups.values()))

    def query(self, root_uuid: str) -> CandidateQuery:
        """The candidates query for one host, by the UUID of its root provider.

        Traits of the group "" are left out: they select a host, and the server has one.
        """
        groups = []
        for suffix, group in self.groups.items():
            if not suffix:
                group = dataclasses.replace(group, required=(), forbidden=frozenset())
            groups.append(dataclasses.replace(group, in_tree=root_uuid))
        return CandidateQuery(tuple(groups), isolate=self.isolate)


def request_of(
    flavor: Flavor,
    image: Mapping[str, str] | None,
    *,
    booted_from_volume: bool,
    pins_cpus: bool = True,
) -> ServerRequest:
    """The request of nova's scheduler for one server.

    Without ``pins_cpus``, all CPUs are VCPU, as in nova's second query for pinned CPUs.

    ``image`` are the image properties of the server (such as ``hw_cpu_policy``); None if
    nova does not show them: compute API below 2.98, and servers booted from a volume.
    """
    specs, unknown = flavor.extra_specs, []
    requested = _requested(specs)
    mentioned = {name for resources in requested.values() for name in resources}
    root = requested[""]
    sources = _extra_spec_sources(requested)
    try:
        pinned = topology.pin(flavor.vcpus, specs, image or {}) if pins_cpus else topology.Pinning()
    except topology.Contradiction as contradiction:
        unknown.append(str(contradiction))
        pinned = topology.Pinning()
    for resource_class, count in ((PCPU, pinned.pinned), (VCPU, pinned.shared)):
        if count is not None:
            root[resource_class] = count
            mentioned |= {PCPU, VCPU}
            sources["", resource_class] = Source(PINNING, _pinned_by(specs, image or {}))
    for resource_class, (count, origin) in _special(specs, image or {}).items():
        root[resource_class] = count
        sources["", resource_class] = origin
    for resource_class, (count, origin) in _usual(flavor, booted_from_volume).items():
        # Extra specs with PCPU also replace the flavor's VCPU.
        alternatives = {VCPU, PCPU} if resource_class == VCPU else {resource_class}
        if not alternatives & mentioned:
            root[resource_class] = count
            sources["", resource_class] = origin
    needs_cyborg = ""
    if profile := specs.get("accel:device_profile"):
        needs_cyborg = f"only Cyborg knows the resources of the device profile {profile}"
        unknown.append(needs_cyborg)
    return ServerRequest(
        _groups(requested, specs, image or {}),
        isolate=specs.get("group_policy") == "isolate",
        unknown=tuple(unknown),
        undecided={} if image is not None else _undecided(specs),
        pci_aliases=tuple(alias for alias, _ in pci_devices(specs)),
        needs_cyborg=needs_cyborg,
        sources=sources,
    )


def _extra_spec_sources(
    requested: Mapping[str, Mapping[str, int]],
) -> dict[tuple[str, str], Source]:
    return {
        (suffix, resource_class): Source(
            EXTRA_SPECS, f"resources{suffix}:{resource_class}={amount}"
        )
        for suffix, resources in requested.items()
        for resource_class, amount in resources.items()
    }


def _pinned_by(specs: Mapping[str, str], image: Mapping[str, str]) -> str:
    """The extra specs and image properties that pin CPUs."""
    specs_read = ("hw:cpu_policy", "hw:cpu_dedicated_mask", "hw:emulator_threads_policy")
    ignored = [f"{key}={specs[key]}" for key in specs_read if specs.get(key)]
    if not specs.get("hw:cpu_policy") and image.get("hw_cpu_policy"):
        ignored.insert(0, f"image hw_cpu_policy={image['hw_cpu_policy']}")
    return ", ".join(ignored)


def _requested(specs: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """``{suffix: {resource class: amount}}`` of extra specs, with zeros; always has "".

    Nova ignores extra specs with classes that are neither standard nor custom.
    """
    groups: dict[str, dict[str, int]] = collections.defaultdict(dict)
    _ = groups[""]
    for suffix, resource_class, text in matching("resources", specs):
        amount = _amount(text)
        if amount is not None and (
            resource_class in standard.RESOURCE_CLASSES
            or resource_class.startswith(name.CUSTOM_PREFIX)
        ):
            groups[suffix][resource_class] = amount
    return groups


def matching(kind: str, specs: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """``(suffix, resource class or trait, value)`` of the extra specs of a kind."""
    for key, value in specs.items():
        match = _KEY.fullmatch(key)
        if match and match["kind"] == kind:
            yield match["suffix"], match["what"], value


def _amount(text: str) -> int | None:
    """The amount, or None for a value that nova ignores."""
    try:
        amount = int(text)
    except ValueError:
        return None
    return amount if amount >= 0 else None


def _usual(flavor: Flavor, booted_from_volume: bool) -> dict[str, tuple[int, Source]]:
    """The resources of a flavor's own fields; swap is rounded up to whole GiB."""
    root = 0 if booted_from_volume else flavor.disk
    disk = root + flavor.ephemeral + -(-flavor.swap // 1024)
    return {
        VCPU: (flavor.vcpus, Source(FLAVOR, f"vcpus={flavor.vcpus}")),
        MEMORY_MB: (flavor.ram, Source(FLAVOR, f"ram={flavor.ram}")),
        DISK_GB: (disk, _disk_source(root, flavor)),
    }


def _disk_source(root: int, flavor: Flavor) -> Source:
    fields = {"disk": root, "ephemeral": flavor.ephemeral, "swap": flavor.swap}
    step = DISKS if flavor.ephemeral or flavor.swap else FLAVOR
    return Source(step, ", ".join(f"{name}={size}" for name, size in fields.items() if size))


def _special(specs: Mapping[str, str], image: Mapping[str, str]) -> dict[str, tuple[int, Source]]:
    """Contexts of encrypted memory, and namespaces of persistent memory."""
    read: dict[str, tuple[int, Source]] = {}
    labels = specs.get("hw:pmem", "")
    for label in labels.split(","):
        if label.strip():
            resource_class = PMEM_PREFIX + _NOT_A_CLASS.sub("_", label.strip().upper())
            count = read[resource_class][0] + 1 if resource_class in read else 1
            read[resource_class] = count, Source(PERSISTENT_MEMORY, f"hw:pmem={labels}")
    encrypted = {
        "hw:mem_encryption": specs.get("hw:mem_encryption"),
        "image hw_mem_encryption": image.get("hw_mem_encryption"),
    }
    by = [f"{key}={value}" for key, value in encrypted.items() if topology.is_true(value)]
    if by:
        read[MEM_ENCRYPTION_CONTEXT] = 1, Source(ENCRYPTED_MEMORY, ", ".join(by))
    return read


def _groups(
    requested: Mapping[str, Mapping[str, int]], specs: Mapping[str, str], image: Mapping[str, str]
) -> dict[str, RequestGroup]:
    """The groups with resources; nova allocates nothing for a group of traits alone."""
    traits: dict[tuple[str, str], set[str]] = collections.defaultdict(set)
    for suffix, trait, how in matching("trait", specs):
        traits[suffix, how].add(trait)
    for suffix, trait, how in matching("trait", image):
        if (suffix, how) == ("", "required"):
            traits["", how].add(trait)
    requests = {}
    for suffix, resources in sorted(requested.items()):
        kept = {name: amount for name, amount in sorted(resources.items()) if amount}
        if kept:
            required = tuple(frozenset({name}) for name in sorted(traits[suffix, "required"]))
            forbidden = frozenset(traits[suffix, "forbidden"])
            requests[suffix] = RequestGroup(suffix, kept, required, forbidden)
    return requests


def _undecided(specs: Mapping[str, str]) -> dict[str, str]:
    names = {}
    if topology.may_be_pinned_by_image(specs):
        names[PCPU] = "the image may pin CPUs, and nova does not show its properties"
    if "hw:mem_encryption" not in specs:
        names[MEM_ENCRYPTION_CONTEXT] = (
            "the image may request encrypted memory, and nova does not show its properties"
        )
    return names


def pci_devices(specs: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    """``(alias, number of devices)`` of ``pci_passthrough:alias``: ``alias:count,...``."""
    names = []
    for text in specs.get("pci_passthrough:alias", "").split(","):
        alias, _, count = text.strip().rpartition(":")
        if alias and count.strip().isdecimal():
            names.append((alias.strip(), int(count)))
    return tuple(names)
