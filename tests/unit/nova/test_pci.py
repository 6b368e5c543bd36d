# SPDX-License-Identifier: Apache-2.0
"""``[pci]device_spec``: its documented forms, and the devices that it matches."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.nova import pci

GPU = pci.device_of("cmp-1_0000:84:00.0", ["CUSTOM_PCI_10DE_20B0"])
NAMED = pci.device_of("cmp-1_0000:84:00.0", ["CUSTOM_GPU"])


def test_a_device_has_the_address_of_its_provider_and_the_ids_of_its_class() -> None:
    assert pci.Device(("0000", "84", "00", "0"), ("10de", "20b0")) == GPU
    assert pci.Device(("0000", "84", "00", "0"), None) == NAMED
    assert str(GPU) == "0000:84:00.0"
    for name in ("cmp-1_pci_0000_84_00_0", "cmp-1", "0000:84:00.0"):
        assert pci.device_of(name, []) is None


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, True),
        ({"vendor_id": "10de"}, True),
        ({"vendor_id": "10DE", "product_id": "20B0"}, True),
        ({"vendor_id": "*", "product_id": "*"}, True),
        ({"vendor_id": "10de", "product_id": "20b1"}, False),
        ({"vendor_id": "8086"}, False),
        ({"product_id": "1533"}, False),
        # Texts with wildcards; what is missing on the left matches everything.
        ({"address": "0000:84:00.0"}, True),
        ({"address": "84:00.0"}, True),
        ({"address": ":84:00."}, True),
        ({"address": "*:84:*.*"}, True),
        ({"address": "*:*:*.*"}, True),
        ({"address": "*"}, True),
        ({"address": "0000:85:00.0"}, False),
        ({"address": "0000:85:00.*"}, None),
        ({"address": "0000:86:00.0"}, False),
        ({"address": "*:83:00.*"}, False),
        ({"address": "0001:84:00.0"}, False),
        # A virtual function of the device may have this address.
        ({"address": "0000:84:00.1"}, None),
        ({"address": "0000:84:10.*", "vendor_id": "8086"}, False),
        # Regular expressions.
        ({"address": {"domain": ".*", "bus": "84", "slot": "00", "function": "[0-3]"}}, True),
        ({"address": {"bus": "8[0-4]"}}, True),
        ({"address": {}}, True),
        ({"address": {"bus": "8[6-9]"}}, False),
        ({"address": {"bus": "84", "function": "[1-7]"}}, None),
        ({"address": "0000:84:00.0", "vendor_id": "8086"}, False),
        # Placement does not show the address of an interface.
        ({"devname": "ens1"}, None),
        ({"devname": "ens1", "vendor_id": "15b3"}, False),
        # Tags do not matter.
        ({"address": "0000:84:00.0", "physical_network": None, "resource_class": "gpu"}, True),
    ],
)
def test_a_spec_matches_by_address_and_ids(spec: dict[str, Any], expected: bool | None) -> None:
    (parsed,) = pci.parse(json.dumps(spec))
    assert GPU is not None
    assert parsed.matches(GPU) is expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"address": "0000:84:00.0"}, True),
        ({"vendor_id": "10de"}, None),
        ({"address": "0000:84:00.0", "vendor_id": "10de"}, None),
        ({"address": "0000:90:00.0", "vendor_id": "10de"}, False),
    ],
)
def test_the_ids_of_a_device_with_another_class_are_not_checked(
    spec: dict[str, Any], expected: bool | None
) -> None:
    (parsed,) = pci.parse(json.dumps(spec))
    assert NAMED is not None
    assert parsed.matches(NAMED) is expected


def test_a_nova_conf_has_several_entries(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "nova.conf"
    path.write_text(
        "[DEFAULT]\nhost = cmp-1\n[pci]\n"
        'device_spec = {"address": "0000:90:00.0"}\n'
        'device_spec = [{"vendor_id": "8086"}, {"address": "*:84:*"}]\n'
    )
    read = pci.read_device_spec(path)
    assert GPU is not None
    assert (read.host, len(read.specs or ()), read.matches(GPU)) == ("cmp-1", 3, True)
    path.write_text('[pci]\npassthrough_whitelist = {"address": "0000:90:00.0"}\n')
    read = pci.read_device_spec(path)
    assert (read.host, read.matches(GPU)) == (None, False)


def test_a_file_without_device_spec_judges_nothing(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "nova.conf"
    path.write_text("[DEFAULT]\n")
    configuration = pci.read_device_spec(path)
    assert GPU is not None
    assert (configuration.specs, configuration.matches(GPU)) == (None, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("3", "3 is not an object"),
        ('{"address": "1:2:3:4.5"}', "is not <domain>:<bus>:<slot>.<function>"),
        ('{"address": "0000:xy:00.0"}', "bus 'xy' is not a hexadecimal number"),
        ('{"address": "0000:84:00.10"}', "function '10' has more than 1 digits"),
        ('{"address": {"bus": "["}}', "address"),
        ('{"address": {"buss": "1"}}', "address has buss: its fields are domain, bus"),
        ('{"vendor_id": "nvidia"}', "vendor_id 'nvidia' is not a hexadecimal number"),
        ('{"devname": "a", "address": "*"}', "has both devname and address"),
    ],
)
def test_an_invalid_spec_is_an_error_that_names_the_file(
    tmp_path: pathlib.Path, text: str, message: str
) -> None:
    path = tmp_path / "nova.conf"
    path.write_text(f"[pci]\ndevice_spec = {text}\n")
    with pytest.raises(errors.PlacementError) as caught:
        pci.read_device_spec(path)
    assert str(caught.value).startswith(f"{path}: [pci]device_spec: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("text", [None, "no section"])
def test_an_unreadable_file_is_an_error(tmp_path: pathlib.Path, text: str | None) -> None:
    path = tmp_path / "nova.conf"
    if text is not None:
        path.write_text(text)
    with pytest.raises(errors.PlacementError, match=r"as a nova\.conf"):
        pci.read_device_spec(path)
