# SPDX-License-Identifier: Apache-2.0
"""What servers use, read from the output of programs of a host."""

from __future__ import annotations

import pytest

from osc_placement import errors
from osc_placement.workflows.reshape import evidence

SERVER = "2af81834-f15d-5a0a-b7aa-9e69172fc630"
OTHER = "535b7b95-a14e-562b-879a-60657e5bce80"
MDEV = "4b20d080-1b54-4048-85b3-a6a62d165c01"
SECOND = "c60f2b3c-3f3d-4a3e-9f0e-6b2b1c9d7e11"


def domain(server: str, *mdevs: str, pins: tuple[str, ...] = ()) -> str:
    """The parts of virsh's XML that matter, with devices beside them."""
    devices = "".join(
        f"<hostdev mode='subsystem' type='mdev' managed='no' model='vfio-pci'><source>"
        f"<address uuid='{mdev}'/></source><address type='pci' domain='0x0000' bus='0x06'/>"
        "</hostdev>"
        for mdev in mdevs
    )
    vcpus = "".join(f"<vcpupin vcpu='{n}' cpuset='{pin}'/>" for n, pin in enumerate(pins))
    return f"""\
<domain type='kvm' id='7'>
  <name>instance-00000007</name>
  <uuid>{server}</uuid>
  <cputune><shares>4096</shares>{vcpus}</cputune>
  <devices><disk type='file' device='disk'/>{devices}</devices>
</domain>
"""


PCI_DEVICE = """\
<device><name>pci_0000_84_00_0</name><parent>computer</parent>
<capability type='pci'><domain>0</domain><bus>132</bus></capability></device>
"""
MDEVCTL = f"{MDEV} 0000:84:00.0 nvidia-35 manual (defined)\n{SECOND} 0000:85:00.0 nvidia-35\n"


def read(*texts: str, reader: evidence.Reader = evidence.mediated_devices) -> list[tuple[str, str]]:
    files = [(f"file{number}", text) for number, text in enumerate(texts)]
    pairs, reasons = evidence.read(files, reader)
    errors.InputErrors(reasons).check()
    return pairs


def test_domains_and_a_list_of_devices_name_the_gpus() -> None:
    domains = "<?xml version='1.0'?>\n" + domain(SERVER, MDEV, SECOND) + domain(OTHER)
    expected = [(SERVER, "0000:84:00.0"), (SERVER, "0000:85:00.0")]
    assert read(domains, MDEVCTL) == expected
    assert read(MDEVCTL + domains) == expected


def test_lines_may_be_among_the_output() -> None:
    text = f"{OTHER}=pci_0000_85_00_0\n\n{domain(SERVER, MDEV)}\n{SERVER}={SECOND}\n{MDEVCTL}"
    assert sorted(read(text)) == [
        (SERVER, "0000:84:00.0"),
        (SERVER, "0000:85:00.0"),
        (OTHER, "pci_0000_85_00_0"),
    ]


@pytest.mark.parametrize(
    ("pins", "expected"),
    [(("4", "5"), "PCPU"), (("0-3", "0-3"), "VCPU"), (("4", "0-3"), "VCPU"), ((), "VCPU")],
)
def test_a_server_with_one_cpu_per_vcpu_is_pinned(pins: tuple[str, ...], expected: str) -> None:
    assert read(domain(SERVER, pins=pins), reader=evidence.cpu_class) == [(SERVER, expected)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (domain(SERVER, MDEV), f"server {SERVER} uses the mediated device {MDEV}, and no file"),
        (domain("none"), "file0: a <domain> element without <uuid>"),
        ("<domain><uuid></domain>", "file0: the XML cannot be read: mismatched tag"),
        (f"<domain><uuid>{SERVER}</uuid>", "file0: '<domain><uuid>"),
        ("cn1=pci_0000_84_00_0", "is not <server>=<value>, and not output of virsh or mdevctl"),
        (f"{SERVER}=", "is not <server>=<value>"),
        ("<domain>&lol;</domain>", "undefined entity"),
        # Each beginning without an end: the text is searched for it once.
        *((begin * 50_000, f"file0: '{begin}") for begin in ("<device>", "<domain>", "<!--")),
    ],
)
def test_what_cannot_be_read_is_reported(text: str, reason: str) -> None:
    with pytest.raises(errors.InvalidInput, match=reason.replace("(", r"\(")):
        read(text)


VF, PF = "0000:83:00.1", "0000:83:00.0"
FUNCTION = """\
<device><name>pci_0000_83_00_1</name><parent>pci_0000_80_01_0</parent>
<capability type='pci'><domain>0</domain><bus>131</bus><slot>0</slot><function>1</function>
<capability type='phys_function'>
  <address domain='0x0000' bus='0x83' slot='0x00' function='0x0'/>
</capability></capability></device>
"""


def with_parts(*parts: str) -> str:
    return f"<domain type='kvm'><uuid>{SERVER}</uuid>{''.join(parts)}</domain>"


def hostdev(bus: int, function: int) -> str:
    source = f"<address domain='0x0000' bus='{bus:#04x}' slot='0x00' function='{function:#x}'/>"
    return f"<hostdev mode='subsystem' type='pci'><source>{source}</source></hostdev>"


def test_a_virtual_function_becomes_its_physical_function() -> None:
    devices = f"<devices>{hostdev(0x83, 1)}{hostdev(0x81, 0)}</devices>"
    found = read(with_parts(devices), FUNCTION, PCI_DEVICE, reader=evidence.pci_devices)
    assert found == [(SERVER, PF), (SERVER, "0000:81:00.0")]
    assert read(with_parts(devices), reader=evidence.pci_devices)[0] == (SERVER, VF)
    odd = devices.replace("0x0000", "any", 1)
    assert read(with_parts(odd), reader=evidence.pci_devices)[0] == (SERVER, "any:0x83:0x00:0x1")


@pytest.mark.parametrize(
    ("security", "models"),
    [
        ("<launchSecurity type='sev'><policy>0x0033</policy></launchSecurity>", ["amd-sev"]),
        ("<launchSecurity type='sev'><policy>0x0007</policy></launchSecurity>", ["amd-sev-es"]),
        ("<launchSecurity type='sev-snp'/>", ["amd-sev-snp"]),
        ("<launchSecurity type='tdx'/>", ["intel-tdx"]),
        ("", []),
    ],
)
def test_the_launch_security_of_a_domain_is_its_model(security: str, models: list[str]) -> None:
    found = read(with_parts(security), reader=evidence.encryption_model)
    assert [model for _, model in found] == models


def test_a_commented_domain_is_no_server() -> None:
    commented = f"<!-- {domain('none')} -->"
    assert read(commented + domain(SERVER, MDEV) + MDEVCTL) == read(domain(SERVER, MDEV) + MDEVCTL)
