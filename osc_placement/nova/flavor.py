"""What a server is allocated, from its flavor and its image: nova's arithmetic.

Pure; heal and audit ask. The rules were learnt from the answers of nova 34
(``nova.scheduler.utils.ResourceRequest``); tests/interop/test_flavor.py holds them to it.
nova-manage differs on purpose or by mistake: it sees no image properties.
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Iterator, Mapping

from osc_placement.model import allocation, name
from osc_placement.model.candidate import CandidateQuery, RequestGroup
from osc_placement.nova import pinning

VCPU, PCPU, MEMORY_MB, DISK_GB = "VCPU", "PCPU", "MEMORY_MB", "DISK_GB"
MEM_ENCRYPTION_CONTEXT = "MEM_ENCRYPTION_CONTEXT"

#: What nova-compute's providers offer, and few others'.
HOST_CLASSES = frozenset({VCPU, PCPU, MEMORY_MB})

#: Others that are not an operator's own are skipped by nova, as if they were not there.
STANDARD_CLASSES = frozenset(
    {
        VCPU,
        PCPU,
        MEMORY_MB,
        DISK_GB,
        MEM_ENCRYPTION_CONTEXT,
        "FPGA",
        "IPV4_ADDRESS",
        "NET_BW_EGR_KILOBIT_PER_SEC",
        "NET_BW_IGR_KILOBIT_PER_SEC",
        "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC",
        "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
        "NET_PACKET_RATE_KILOPACKET_PER_SEC",
        "NUMA_CORE",
        "NUMA_MEMORY_MB",
        "NUMA_SOCKET",
        "NUMA_THREAD",
        "PCI_DEVICE",
        "PGPU",
        "SRIOV_NET_VF",
        "VGPU",
        "VGPU_DISPLAY_HEAD",
    }
)

_KEY = re.compile(r"(?P<kind>resources|trait)(?P<suffix>[a-zA-Z0-9_-]{0,64}):(?P<what>.*)")
_NOT_A_CLASS = re.compile(r"[^0-9A-Z]+")


@dataclasses.dataclass(frozen=True, slots=True)
class Flavor:
    """A flavor as it is embedded in a server: MiB of ram and swap, GiB of disks."""

    vcpus: int
    ram: int
    disk: int
    ephemeral: int = 0
    swap: int = 0
    extra_specs: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class ServerRequest:
    """What a server is to have, as far as that can be told.

    ``groups`` is ``{suffix: group}``, each with some resources; the suffix "" is the group
    that a whole tree may satisfy. ``isolate`` is group_policy=isolate. A flavor cannot ask for
    same_subtree: nova knows no such extra spec.

    ``unknown`` are reasons why this is not all of it, or nothing: nova asks another
    service, or would refuse. ``undecided`` is ``{resource class: reason}``: hidden properties of
    the image decide whether that class is used; a host without it answers that. The devices of
    ``pci_aliases`` are allocated only where nova reports its PCI devices to Placement.
    """

    groups: Mapping[str, RequestGroup] = dataclasses.field(default_factory=dict)
    isolate: bool = False
    unknown: tuple[str, ...] = ()
    undecided: Mapping[str, str] = dataclasses.field(default_factory=dict)
    pci_aliases: tuple[str, ...] = ()

    @property
    def is_granular(self) -> bool:
        """Whether some resources must come from one provider, which may be any of a tree."""
        return any(self.groups)

    def total(self) -> dict[str, int]:
        """``{resource class: amount}`` over all groups."""
        return allocation.add_resources(*(group.resources for group in self.groups.values()))

    def query(self, root_uuid: str) -> CandidateQuery:
        """Asks for what fits on one host, by the uuid of its root provider.

        The traits of the group "" are left out: they say where a server may go, and
        this one is there.
        """
        groups = []
        for suffix, group in self.groups.items():
            if not suffix:
                group = dataclasses.replace(group, required=(), forbidden=frozenset())
            groups.append(dataclasses.replace(group, in_tree=root_uuid))
        return CandidateQuery(tuple(groups), isolate=self.isolate)


def request_of(
    flavor: Flavor, image: Mapping[str, str] | None, *, booted_from_volume: bool
) -> ServerRequest:
    """What nova's scheduler asks Placement for, of one server.

    ``image`` are the image's properties as the server keeps them (``hw_cpu_policy``), None
    where they cannot be seen: compute API below 2.98, and servers booted from a volume.
    """
    specs, unknown = flavor.extra_specs, []
    asked = _asked(specs)
    mentioned = {each for resources in asked.values() for each in resources}
    root = asked[""]
    try:
        pinned = pinning.pin(flavor.vcpus, specs, image or {})
    except pinning.Contradiction as contradiction:
        unknown.append(str(contradiction))
        pinned = pinning.Pinning()
    for resource_class, count in ((PCPU, pinned.pinned), (VCPU, pinned.shared)):
        if count is not None:
            root[resource_class] = count
            mentioned |= {PCPU, VCPU}
    root.update(_special(specs, image or {}))
    for resource_class, count in _usual(flavor, booted_from_volume).items():
        # Who asks for pinned CPUs by themselves gets no others.
        alternatives = {VCPU, PCPU} if resource_class == VCPU else {resource_class}
        if not alternatives & mentioned:
            root[resource_class] = count
    if profile := specs.get("accel:device_profile"):
        unknown.append(f"Cyborg knows what the device profile {profile} takes")
    return ServerRequest(
        _groups(asked, specs, image or {}),
        isolate=specs.get("group_policy") == "isolate",
        unknown=tuple(unknown),
        undecided={} if image is not None else _undecided(specs),
        pci_aliases=_pci_aliases(specs),
    )


def _asked(specs: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """``{suffix: {resource class: amount}}`` of extra specs, zeros too; "" is always there."""
    found: dict[str, dict[str, int]] = collections.defaultdict(dict)
    _ = found[""]
    for suffix, resource_class, text in _matching("resources", specs):
        amount = _amount(text)
        if amount is not None and (
            resource_class in STANDARD_CLASSES or resource_class.startswith(name.CUSTOM_PREFIX)
        ):
            found[suffix][resource_class] = amount
    return found


def _matching(kind: str, specs: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Suffix, what is named, and the value of those extra specs."""
    for key, value in specs.items():
        match = _KEY.fullmatch(key)
        if match and match["kind"] == kind:
            yield match["suffix"], match["what"], value


def _amount(text: str) -> int | None:
    """None for what nova skips."""
    try:
        amount = int(text)
    except ValueError:
        return None
    return amount if amount >= 0 else None


def _usual(flavor: Flavor, booted_from_volume: bool) -> dict[str, int]:
    """What a flavor says of itself. Swap is in MiB, and takes whole GiB."""
    root = 0 if booted_from_volume else flavor.disk
    disk = root + flavor.ephemeral + -(-flavor.swap // 1024)
    return {VCPU: flavor.vcpus, MEMORY_MB: flavor.ram, DISK_GB: disk}


def _special(specs: Mapping[str, str], image: Mapping[str, str]) -> dict[str, int]:
    """Encrypted memory, and namespaces of persistent memory by their labels."""
    found: dict[str, int] = {}
    for label in specs.get("hw:pmem", "").split(","):
        if label.strip():
            resource_class = "PMEM_NAMESPACE_" + _NOT_A_CLASS.sub("_", label.strip().upper())
            resource_class = name.CUSTOM_PREFIX + resource_class
            found[resource_class] = found.get(resource_class, 0) + 1
    if any(map(pinning.is_true, (specs.get("hw:mem_encryption"), image.get("hw_mem_encryption")))):
        found[MEM_ENCRYPTION_CONTEXT] = 1
    return found


def _groups(
    asked: Mapping[str, Mapping[str, int]], specs: Mapping[str, str], image: Mapping[str, str]
) -> dict[str, RequestGroup]:
    """Those that ask for resources; a group of traits alone allocates nothing."""
    traits: dict[tuple[str, str], set[str]] = collections.defaultdict(set)
    for suffix, trait, how in _matching("trait", specs):
        traits[suffix, how].add(trait)
    for suffix, trait, how in _matching("trait", image):
        if (suffix, how) == ("", "required"):
            traits["", how].add(trait)
    found = {}
    for suffix, resources in sorted(asked.items()):
        kept = {each: amount for each, amount in sorted(resources.items()) if amount}
        if kept:
            required = tuple(frozenset({each}) for each in sorted(traits[suffix, "required"]))
            forbidden = frozenset(traits[suffix, "forbidden"])
            found[suffix] = RequestGroup(suffix, kept, required, forbidden)
    return found


def _undecided(specs: Mapping[str, str]) -> dict[str, str]:
    found = {}
    if pinning.may_be_pinned_by_image(specs):
        found[PCPU] = "the image may pin CPUs, and its properties are not shown"
    if "hw:mem_encryption" not in specs:
        found[MEM_ENCRYPTION_CONTEXT] = (
            "the image may ask for encrypted memory, and its properties are not shown"
        )
    return found


def _pci_aliases(specs: Mapping[str, str]) -> tuple[str, ...]:
    """The names in ``alias:count,…``."""
    asked = specs.get("pci_passthrough:alias", "").split(",")
    return tuple(each.partition(":")[0].strip() for each in asked if each.strip())
