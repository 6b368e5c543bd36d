# SPDX-License-Identifier: Apache-2.0
"""What servers use on their host, in lines and in the output of virsh and mdevctl. Pure.

A text may contain, in any order and repeatedly:

* ``<server>=<what it uses>``;
* ``<domain>`` elements, as ``virsh dumpxml SERVER`` prints them;
* the lines of ``mdevctl list``: ``<mediated device> <parent's PCI address> <type> ...``;
* ``<device>`` elements of PCI devices, as ``virsh nodedev-dumpxml`` prints them.

A domain has the UUID of its server. It lists mediated devices by their UUIDs only, so that
``mdevctl list`` has to name their GPUs. A virtual function becomes its physical function, if a
``<device>`` names that.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree
from collections.abc import Callable, Iterable, Iterator

from osc_placement.model.name import canonical_uuid, is_uuid

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_PCI = r"[0-9a-f]{4}[:_][0-9a-f]{2}[:_][0-9a-f]{2}[._][0-9a-f]"
#: How an element begins, or what may stand around elements: a declaration or a comment.
_BEGIN = re.compile(r"<domain\b|<device\b|<\?xml|<!--")
_ENDS = {"<domain": "</domain>", "<device": "</device>", "<?xml": "?>", "<!--": "-->"}
_MDEVCTL = re.compile(rf"({_UUID})\s+({_PCI})\s+\S+.*", re.IGNORECASE)

_HEXADECIMAL = re.compile("(0x)?[0-9a-f]+", re.IGNORECASE)

#: ``{type of <launchSecurity>: model}``; the bit of its policy that makes SEV to SEV-ES.
_MODELS = {"sev": "amd-sev", "sev-snp": "amd-sev-snp", "tdx": "intel-tdx"}
_ENCRYPTED_STATE = 0x4

#: How much of a line a message quotes.
_SHOWN = 80

#: What a recipe takes from a ``<domain>``; a UUID is that of a mediated device.
Reader = Callable[[xml.etree.ElementTree.Element], Iterable[str]]


def read(
    files: Iterable[tuple[str, str]], reader: Reader
) -> tuple[list[tuple[str, str]], list[str]]:
    """``(server's UUID, what it uses)``; ``files`` are pairs of a name and a text.

    A mediated device becomes the PCI address of its GPU, a virtual function its physical function.
    And an error per line, element and device that cannot be read.
    """
    collected = _Collector(reader)
    for source, text in files:
        elements, rest = _split(text)
        for element in elements:
            collected.add_element(source, element)
        for line in rest.splitlines():
            if line.strip():
                collected.add_line(source, line.strip())
    return list(collected.pairs()), collected.reasons


def _split(text: str) -> tuple[list[str], str]:
    """The elements, and the lines around them; one that does not end is a line."""
    elements, rest, at = [], [], 0
    endless = set[str]()
    for begin in _BEGIN.finditer(text):
        end = _ENDS[begin[0]]
        if begin.start() < at or end in endless:
            continue
        closed = text.find(end, begin.end())
        if closed < 0:
            endless.add(end)
            continue
        rest.append(text[at : begin.start()])
        at = closed + len(end)
        if begin[0] in ("<domain", "<device"):
            elements.append(text[begin.start() : at])
    return elements, "\n".join([*rest, text[at:]])


def mediated_devices(domain: xml.etree.ElementTree.Element) -> Iterator[str]:
    """The UUIDs of the mediated devices of a domain."""
    for address in domain.iterfind("./devices/hostdev[@type='mdev']/source/address"):
        yield address.get("uuid", "").lower()


def cpu_class(domain: xml.etree.ElementTree.Element) -> Iterator[str]:
    """``PCPU`` if each vCPU has one CPU of the host, else ``VCPU``."""
    pins = [pin.get("cpuset", "") for pin in domain.iterfind("./cputune/vcpupin")]
    yield "PCPU" if pins and all(pin.isdecimal() for pin in pins) else "VCPU"


def encryption_model(domain: xml.etree.ElementTree.Element) -> Iterator[str]:
    """The model of memory encryption of a domain, as in ``hw:mem_encryption_model``."""
    security = domain.find("./launchSecurity")
    if security is None:
        return
    kind = security.get("type", "")
    policy = security.findtext("./policy", "0").strip()
    is_es = kind == "sev" and _HEXADECIMAL.fullmatch(policy) and int(policy, 16) & _ENCRYPTED_STATE
    yield "amd-sev-es" if is_es else _MODELS.get(kind, kind)


def pci_devices(domain: xml.etree.ElementTree.Element) -> Iterator[str]:
    """The addresses of the PCI devices of a domain."""
    for element in domain.iterfind("./devices/hostdev[@type='pci']/source/address"):
        yield _address_of(element)


def pci_address(text: str) -> str | None:
    """``0000:84:00.0``, also for ``0000_84_00_0``; None for any other text."""
    if re.fullmatch(_PCI, text, re.IGNORECASE) is None:
        return None
    domain, bus, slot, function = re.split("[:_.]", text.lower())
    return f"{domain}:{bus}:{slot}.{function}"


class _Collector:
    """The contents of all files; a later one may list the mediated devices of an earlier one."""

    def __init__(self, reader: Reader) -> None:
        self.reasons: list[str] = []
        self._reader = reader
        self._used: list[tuple[str, str]] = []
        self._parents: dict[str, str] = {}

    def pairs(self) -> Iterator[tuple[str, str]]:
        """``(server, what it uses)``, with the parents of mediated devices."""
        for server, used in self._used:
            if used in self._parents:
                yield server, self._parents[used]
            elif not is_uuid(used):
                yield server, used
            else:
                self.reasons.append(
                    f"server {server} uses the mediated device {used}, and no file names its GPU:"
                    " add the output of 'mdevctl list' with --assign @<file>"
                )

    def add_element(self, source: str, text: str) -> None:
        try:
            # Safe: the element is without a document type, and so without entities.
            element = xml.etree.ElementTree.fromstring(text)  # noqa: S314
        except xml.etree.ElementTree.ParseError as error:
            self.reasons.append(f"{source}: the XML cannot be read: {error}")
            return
        if element.tag == "device":
            self._device(element)
            return
        server = element.findtext("uuid", "").strip()
        if is_uuid(server):
            self._used += [(canonical_uuid(server), used) for used in self._reader(element)]
        else:
            self.reasons.append(f"{source}: a <domain> element without <uuid>")

    def _device(self, device: xml.etree.ElementTree.Element) -> None:
        """The physical function of a virtual one."""
        function = pci_address(device.findtext("name", "").removeprefix("pci_"))
        physical = device.find("./capability/capability[@type='phys_function']/address")
        if function is not None and physical is not None:
            self._parents[function] = _address_of(physical)

    def add_line(self, source: str, line: str) -> None:
        named = _MDEVCTL.fullmatch(line)
        server, _, used = line.partition("=")
        if named:
            self._parents[named[1].lower()] = pci_address(named[2]) or named[2]
        elif used and is_uuid(server):
            self._used.append((canonical_uuid(server), used))
        else:
            self.reasons.append(
                f"{source}: {line[:_SHOWN]!r} is not <server>=<value>, and not output of virsh or"
                " mdevctl"
            )


def _address_of(element: xml.etree.ElementTree.Element) -> str:
    """The PCI address in the attributes of an ``<address>``, as ``0000:84:00.0``."""
    parts = [element.get(name, "") for name in ("domain", "bus", "slot", "function")]
    if not all(map(_HEXADECIMAL.fullmatch, parts)):
        return ":".join(parts)
    domain, bus, slot, function = (int(part, 16) for part in parts)
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"
