# SPDX-License-Identifier: Apache-2.0
"""Runs the recipes of the user guide with a real keystone, nova and placement.

Every command of doc/source/user/reshape/recipe-*.rst runs in order and prints what the page shows.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from typing import NamedTuple

import pytest

from lab import database, place
from lab.tests import test_heal
from lab.tests.test_heal import Lab

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

PAGES = sorted((place.ROOT / "doc" / "source" / "user" / "reshape").glob("recipe-*.rst"))
CLOUD = "cloud admin,"
GPUS, REBUILT = "cmp-0012.lab.example.org", "cmp-0006.lab.example.org"
NEW = "3f1c6a52-7b0e-4d8e-9a55-0c2f6a7d1e11"


class Step(NamedTuple):
    """A command of the page and its output there; ``...`` matches any lines."""

    command: str
    output: str


def steps(title: str) -> list[Step]:
    """The commands in the console blocks of the page with this title."""
    text = "\n".join(page.read_text() for page in PAGES)
    _, _, rest = text.partition(f"\n{title}\n===")
    section = re.split(r"\n=====+\n", rest.partition("\n")[2])[0]
    blocks = re.findall(r"\.\. code-block:: console\n\n((?:   .*\n|\n)+)", section)
    commands = []
    for block in blocks:
        text = re.sub(r"^   ", "", block, flags=re.MULTILINE).rstrip()
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, output = re.fullmatch(r"((?:.*\\\n)*.*)\n?((?:.*\n?)*)", part).groups()  # type: ignore[union-attr]
            commands.append(Step(command.replace("\\\n", " "), output.rstrip()))
    return commands


lab = test_heal.lab


class Operator:
    """Runs the commands of the page."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def run(self, step: Step) -> str:
        """The output of a command, as the page shows it."""
        command = step.command
        if command.startswith("cat "):
            return self._plain((self._lab.folder / command.split()[1]).read_text())
        assert command.startswith("openstack "), command
        user = "-service" if "--os-cloud service " in command else ""
        command = command.replace("--os-cloud service ", "").removeprefix("openstack ")
        outcome = self._lab.openstack.run(command, user, COLUMNS="120")
        return self._plain(outcome.stdout + outcome.stderr)

    def _plain(self, text: str) -> str:
        text = text.replace(self._lab.lab.url("placement"), "http://placement.example.org")
        text = text.replace("cloud lab-service", "cloud service").replace("cloud lab,", CLOUD)
        text = re.sub(r"req-[0-9a-f-]{36}", "req-0d2e7a54-5d51-4c0e-9d6b-6d0a8a0c7f21", text)
        return "\n".join(line.rstrip() for line in text.rstrip().splitlines())


def matches(output: str, printed: str) -> bool:
    """Whether an output is the printed one; ``...`` matches any lines."""
    parts = re.split(r"^\.\.\.(?:\n|$)", printed, flags=re.MULTILINE)
    pattern = r"[\s\S]*?".join(re.escape(part) for part in parts)
    return re.fullmatch(pattern, output) is not None


def add_resources(lab: Lab, name: str, provider: str, **more: int) -> None:
    """Add resources of a provider to the allocations of a server that uses it."""
    path = f"/allocations/{lab.seed['servers'][name]['uuid']}"
    body = lab.ask("placement", "GET", path)
    for uuid, part in body["allocations"].items():
        del part["generation"]
        if uuid == lab.seed["providers"][provider]:
            part["resources"] |= more
    lab.ask("placement", "PUT", path, body)


def arrange_gpus(lab: Lab) -> None:
    """One compute node with 4 + 4 VGPU and two network functions, all used by servers."""
    lab.heal("--host cmp-0012 --skip-port-allocations", code=0)
    more = "--resource VGPU=8 --resource SRIOV_NET_VF=2"
    uuid = lab.seed["providers"][GPUS]
    lab.openstack(f"resource provider inventory set {uuid} --amend {more}")
    add_resources(lab, "vm-00009", GPUS, VGPU=1)
    add_resources(lab, "vm-00019", GPUS, VGPU=2, SRIOV_NET_VF=1)
    add_resources(lab, "vm-00029", GPUS, VGPU=2)
    evidence = {"vm-00009": "84", "vm-00019": "85", "vm-00029": "84"}
    lines = (
        f"{lab.seed['servers'][name]['uuid']}=pci_0000_{bus}_00_0\n"
        for name, bus in evidence.items()
    )
    (lab.folder / "evidence").write_text("".join(lines))


def arrange_rebuilt(lab: Lab) -> None:
    """Servers on a host with child providers of neutron's agent, whose compute node is new."""
    lab.heal("--host cmp-0006 --skip-port-allocations", code=0)
    renew_node(lab)


def arrange_pinned(lab: Lab) -> None:
    """Servers with dedicated CPUs and allocations of VCPU, as before Train."""
    lab.openstack.run("placement allocation heal --host cmp-0002 --skip-port-allocations")
    for name, cpus in (("rs-pinned", 4), ("rs-pinned-image", 4)):
        path = f"/allocations/{lab.seed['servers'][name]['uuid']}"
        body = lab.ask("placement", "GET", path)
        for part in body["allocations"].values():
            del part["generation"], part["resources"]["PCPU"]
            part["resources"]["VCPU"] = cpus
        lab.ask("placement", "PUT", path, body)


def arrange_encrypted(lab: Lab) -> None:
    """A server with memory encryption, and its allocation."""
    lab.openstack.run("placement allocation heal --host cmp-0009 --skip-port-allocations")
    (part,) = lab.held("xx-sev")["allocations"].values()
    assert part["MEM_ENCRYPTION_CONTEXT"] == 1


def arrange_devices(lab: Lab) -> None:
    """A compute node with GPUs of its own, and what libvirt says about its servers."""
    lab.heal("--host cmp-0012 --skip-port-allocations", code=0)
    for words in ("resource class create CUSTOM_GPU", "resource class create CUSTOM_FPGA"):
        assert lab.openstack.run(words).returncode == 0
    more = "--resource CUSTOM_GPU=2 --resource CUSTOM_FPGA=1"
    lab.openstack(f"resource provider inventory set {lab.seed['providers'][GPUS]} --amend {more}")
    add_resources(lab, "vm-00009", GPUS, CUSTOM_GPU=1)
    add_resources(lab, "vm-00019", GPUS, CUSTOM_GPU=1, CUSTOM_FPGA=1)
    used = {"vm-00009": ("0x81",), "vm-00019": ("0x82", "0xaf")}
    (lab.folder / "domains.xml").write_text("".join(domain(lab, *item) for item in used.items()))


def domain(lab: Lab, server: str, buses: tuple[str, ...]) -> str:
    """The parts of virsh's XML that name the PCI devices of a server."""
    devices = "".join(
        "<hostdev mode='subsystem' type='pci' managed='yes'><source>"
        f"<address domain='0x0000' bus='{bus}' slot='0x00' function='0x0'/></source></hostdev>"
        for bus in buses
    )
    uuid = lab.seed["servers"][server]["uuid"]
    return f"<domain type='kvm'><uuid>{uuid}</uuid><devices>{devices}</devices></domain>\n"


@pytest.mark.parametrize(
    ("title", "arrange"),
    [
        pytest.param("VGPU to one provider per GPU", arrange_gpus, marks=pytest.mark.smoke),
        ("Replacing a rebuilt host", arrange_rebuilt),
        ("VCPU to PCPU", arrange_pinned),
        ("Memory encryption", arrange_encrypted),
        ("PCI devices", arrange_devices),
    ],
)
def test_guide_shows_the_real_output_and_undo_restores_everything(
    lab: Lab, title: str, arrange: Callable[[Lab], None]
) -> None:
    arrange(lab)
    before = lab.everything(), lab.state()
    operator, commands = Operator(lab), steps(title)
    assert len(commands) > 3
    for step in commands:
        output = operator.run(step)
        assert matches(output, step.output), f"$ {step.command}\n{output}"
    assert (lab.everything(), lab.state()) == before


def renew_node(lab: Lab) -> None:
    """Let nova have a compute node with a new UUID, as if it had lost the old one."""
    with database.transaction(lab.lab, "nova_cell1") as nova:
        nova.execute("UPDATE compute_nodes SET uuid = ? WHERE host = 'cmp-0006'", (NEW,))


def test_nova_finds_the_servers_of_a_rebuilt_host(lab: Lab) -> None:
    lab.heal("--host cmp-0006 --skip-port-allocations", code=0)
    before, clean = lab.everything(), nova_manage_audit(lab, lab.seed["providers"][REBUILT])
    assert clean.returncode == 0, clean
    renew_node(lab)
    for command in ("--down", "--disable"):
        completed = lab.openstack.run(f"compute service set {command} cmp-0006 nova-compute")
        assert completed.returncode == 0, completed.stderr
    recipe = f"placement recipe replace-host {REBUILT} {REBUILT} --uuid {NEW}"
    lab.openstack.run(f"{recipe} --out replace.yaml")
    lab.openstack("placement reshape replace.yaml --allow nova-owned", "-service")
    lab.openstack.run("compute service set --up --enable cmp-0006 nova-compute")
    audited = nova_manage_audit(lab, NEW)
    assert audited.returncode == 0, audited
    healed = lab.heal("--host cmp-0006 --skip-port-allocations --dry-run", code=0)
    assert {row["status"] for row in healed.values()} <= {"unchanged", "skipped", "refused"}
    rows = lab.openstack("placement allocation audit --host cmp-0006 --skip-port-allocations")
    # The ports of servers are skipped, which is a row too.
    assert [row for row in rows if row["code"] not in ("unknown", "not-checked")] == []
    old = lab.seed["providers"][REBUILT]
    for name, parts in lab.everything().items():
        had = before[name]["allocations"]
        expected = {NEW if uuid == old else uuid: part for uuid, part in had.items()}
        assert parts["allocations"] == expected, name
        assert parts.get("consumer_type") == before[name].get("consumer_type")
    completed = lab.openstack.run(f"resource provider delete {old}")
    assert completed.returncode == 0, completed.stderr


def nova_manage_audit(lab: Lab, provider: str) -> subprocess.CompletedProcess[str]:
    """nova-manage placement audit of one provider; exits with 0 if it finds nothing."""
    config = str(lab.lab.path("etc", "nova"))
    command = [lab.lab.program("nova-manage"), "--config-dir", config, "placement", "audit"]
    return subprocess.run(
        [*command, "--verbose", "--resource_provider", provider],
        env=dict(lab.lab.environment()),
        capture_output=True,
        text=True,
        timeout=120,
    )
