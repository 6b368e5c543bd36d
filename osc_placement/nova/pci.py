# SPDX-License-Identifier: Apache-2.0
"""Reads ``[pci]device_spec`` of a nova.conf, and matches it with the PCI devices of Placement.

Placement has one provider for a device, or for a physical function with all its virtual functions.
Its name ends with the address of the function::

    cmp-0001_0000:84:00.0, CUSTOM_PCI_10DE_20B0: total 1

Virtual functions have addresses of their own, which Placement does not show: on the bus of the
physical function or on the next one.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from osc_placement import errors
from osc_placement.model import json_text
from osc_placement.nova import configuration
from osc_placement.nova.topology import to_bool

#: The trait that nova-compute gives to every provider of a PCI device that it manages.
MANAGED = "COMPUTE_MANAGED_PCI_DEVICE"

_ANY = "*"
_PROVIDER_NAME = re.compile(r".*_([0-9a-f]{4,}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.DOTALL)
_RESOURCE_CLASS = re.compile(r"CUSTOM_PCI_([0-9A-F]{4})_([0-9A-F]{4})")
#: ``[[[<domain>:]<bus>:]<slot>][.<function>]``; what is empty or ``*`` matches everything.
_GLOB = re.compile(
    r"(?:(?:(?P<domain>[^:.]*):)?(?P<bus>[^:.]*):)?(?P<slot>[^:.]*)(?:\.(?P<function>[^:.]*))?"
)
#: ``{part of an address: its hexadecimal digits}``
_PARTS = {"domain": 4, "bus": 2, "slot": 2, "function": 1}
_ID_FIELDS = ("vendor_id", "product_id")


class Device(NamedTuple):
    """A PCI device: ``address`` has domain, bus, slot and function in lower-case hex.

    ``ids`` are the vendor and the product in lower-case hex, None for a class of another name.
    """

    address: tuple[str, str, str, str]
    ids: tuple[str, str] | None

    def __str__(self) -> str:
        domain, bus, slot, function = self.address
        return f"{domain}:{bus}:{slot}.{function}"


def device_of(name: str, classes: Iterable[str]) -> Device | None:
    """The device of a provider with this name and inventories; None if the name has no address."""
    address = _PROVIDER_NAME.fullmatch(name)
    if address is None:
        return None
    ids = [match.groups() for match in map(_RESOURCE_CLASS.fullmatch, classes) if match]
    vendor_product = (ids[0][0].lower(), ids[0][1].lower()) if len(ids) == 1 else None
    domain, bus, slot, function = address.groups()
    return Device((domain, bus, slot, function), vendor_product)


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceSpec:
    """One entry of ``[pci]device_spec``.

    ``address`` has a pattern for each of domain, bus, slot and function.
    ``is_named``: it names a network interface (``devname``), whose address Placement does not know.
    ``ids`` are the vendor and the product, None for any. ``is_one_time_use``: its devices serve
    one server, and are then cleaned; None for a value that nova refuses from nova 32 on.
    """

    address: tuple[re.Pattern[str], ...]
    ids: tuple[str | None, str | None] = (None, None)
    is_named: bool = False
    is_one_time_use: bool | None = False

    def matches(self, device: Device) -> bool | None:
        """Whether nova-compute manages the device because of this entry; None if it may."""
        ids = self._matches_ids(device)
        if ids is False:
            return False
        if self.is_named:
            return None
        if self._matches_address(device.address):
            return ids
        return None if self._may_be_virtual(device.address) else False

    def _matches_ids(self, device: Device) -> bool | None:
        wanted = [index for index, number in enumerate(self.ids) if number is not None]
        if not wanted:
            return True
        if device.ids is None:
            return None
        return all(self.ids[index] == device.ids[index] for index in wanted)

    def _matches_address(self, address: Iterable[str]) -> bool:
        # re.match, as nova: a pattern needs to match the beginning only.
        return all(pattern.match(part) for pattern, part in zip(self.address, address, strict=True))

    def _may_be_virtual(self, address: tuple[str, str, str, str]) -> bool:
        """Whether the entry may name virtual functions of the device.

        Slot 00 with function 0 is a physical function.
        """
        domains, buses, slots, functions = self.address
        domain, bus, _, _ = address
        return (
            domains.match(domain) is not None
            and any(map(buses.match, (bus, f"{int(bus, 16) + 1:02x}")))
            and any(
                slots.match(f"{slot:02x}") and functions.match(str(function))
                for slot in range(32)
                for function in range(8)
                if slot or function
            )
        )


@dataclasses.dataclass(frozen=True, slots=True)
class PciConfiguration:
    """What a nova.conf says: its ``[pci]device_spec``, and ``host`` if it sets ``[DEFAULT]host``.

    ``specs`` is None if the file has no device_spec: it may be the file of another service.
    ``is_reported``: nova-compute reports the devices to Placement.
    """

    path: str
    specs: tuple[DeviceSpec, ...] | None
    host: str | None = None
    is_reported: bool = False

    def matches(self, device: Device) -> bool | None:
        """Whether an entry matches the device; None if this cannot be checked."""
        answers = {spec.matches(device) for spec in self.specs or ()}
        return True if True in answers else None if None in answers or self.specs is None else False


def read_device_spec(path: pathlib.Path, refused: list[str] | None = None) -> PciConfiguration:
    """The configuration of PCI devices in a nova.conf; ``refused`` is that of ``configuration``.

    Errors: PlacementError names the file.
    """
    from oslo_config import cfg

    old_names = [
        cfg.DeprecatedOpt("passthrough_whitelist", group="pci"),
        cfg.DeprecatedOpt("pci_passthrough_whitelist", group="DEFAULT"),
    ]
    sections: dict[str, list[cfg.Opt]] = {
        "DEFAULT": [cfg.StrOpt("host")],
        "pci": [
            cfg.MultiStrOpt("device_spec", deprecated_opts=old_names),
            cfg.BoolOpt("report_in_placement", default=False),
        ],
    }
    values = configuration.read(path, sections, refused)
    texts = values["device_spec"]
    specs = None
    try:
        specs = None if texts is None else tuple(spec for text in texts for spec in parse(text))
    except ValueError as error:
        reason = f"[pci]device_spec: {error}"
        if refused is None:
            raise errors.PlacementError(f"{path}: {reason}") from error
        refused.append(reason)
    return PciConfiguration(str(path), specs, values["host"], values["report_in_placement"])


def parse(text: str) -> list[DeviceSpec]:
    """The entries of one value of ``device_spec``: a JSON object or a list of them.

    Errors: ValueError with the reason.
    """
    try:
        document = json_text.parse(text)
    except ValueError:
        raise ValueError(f"{text!r} is not JSON") from None
    entries = document if isinstance(document, list) else [document]
    return [_spec(entry) for entry in entries]


def _spec(entry: Any) -> DeviceSpec:
    if not isinstance(entry, Mapping):
        raise ValueError(f"{entry!r} is not an object")  # noqa: TRY004 - as all errors of the text
    if "devname" in entry and "address" in entry:
        raise ValueError(f"{json.dumps(entry)} has both devname and address")
    vendor, product = (_vendor_or_product(name, entry.get(name, _ANY)) for name in _ID_FIELDS)
    return DeviceSpec(
        _address(entry.get("address", _ANY)),
        (vendor, product),
        is_named="devname" in entry,
        is_one_time_use=to_bool(str(entry.get("one_time_use", "no"))),
    )


def _vendor_or_product(name: str, value: Any) -> str | None:
    text = str(value).strip()
    return None if text == _ANY else _hex(name, text, 4)


def _address(address: Any) -> tuple[re.Pattern[str], ...]:
    """The patterns of an address: a text with ``*``, or an object with regular expressions."""
    if isinstance(address, Mapping):
        unknown = sorted(address.keys() - _PARTS.keys())
        if unknown:
            raise ValueError(
                f"address has {', '.join(unknown)}: its fields are {', '.join(_PARTS)}"
            )
        try:
            return tuple(re.compile(str(address.get(part, ".*"))) for part in _PARTS)
        except re.error as error:
            raise ValueError(f"address {json.dumps(address)}: {error}") from error
    match = _GLOB.fullmatch(str(address).strip())
    if match is None:
        raise ValueError(f"address {address!r} is not <domain>:<bus>:<slot>.<function>")
    return tuple(
        re.compile(
            ".*" if match[part] in (None, "", _ANY) else f"{_hex(part, match[part], width)}$"
        )
        for part, width in _PARTS.items()
    )


def _hex(what: str, text: str, width: int) -> str:
    """A hexadecimal number with ``width`` digits; ``what`` names it in the ValueError."""
    try:
        number = int(text, 16)
    except ValueError:
        raise ValueError(f"{what} {text!r} is not a hexadecimal number, and not *") from None
    if not 0 <= number < 16**width:
        raise ValueError(f"{what} {text!r} has more than {width} digits")
    return f"{number:0{width}x}"
