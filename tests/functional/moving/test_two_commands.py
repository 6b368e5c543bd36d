# SPDX-License-Identifier: Apache-2.0
"""Drain, make-room, host check and capacity never differ from explain: random clouds.

``explain --server S --for WAY --to-host H`` is nova's own request for this server and host. Each
step that a plan prints is asked for in the state in which it begins; after it the cloud is as the
step leaves it.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import random
import re
import shlex
import tempfile
from collections.abc import Sequence
from typing import Any

import pytest

from osc_placement import testing
from osc_placement.testing.cloud import uuid_of
from tests.support.peer import target as targets
from tests.support.peer.shell import OpenStack
from tests.support.rows import nova_recording

pytestmark = pytest.mark.seeds(5, long=150)

HOSTS = tuple(f"h{number}" for number in range(5))
RELEASE = ("--nova-release", "32")
EXPLAIN = "allocation candidate explain"
#: Exit codes of explain: a host can, none can, not known; nova refuses the server itself.
YES, NO, UNKNOWN, REFUSED = 0, 3, 4, 1
#: How host check, drain and ``--keep`` say why no other host takes a server.
NO_ROOM, REFUSING = "no other host has room with ", "only hosts that take no server have room: "
AIMED = "nova takes what it requests from the tree of the target"
REMOVE_TRAIT = ("resource", "provider", "trait", "remove", "--allow", "standard-traits", "--trait")
AMEND = ("resource", "provider", "inventory", "amend", "--resource")
#: Reasons that are about a plan or about several servers.
OF_SEVERAL = "it fits only without other servers"
WAYS = {"live": "live-migrate", "cold": "migrate"}
SPECS: tuple[dict[str, str], ...] = (
    {},
    {},
    {},
    {"resources:VGPU": "1"},
    {"resources:VGPU": "1", "trait:CUSTOM_T1": "required"},
    {"resources1:VGPU": "1", "resources2:VGPU": "1", "group_policy": "none"},
    {"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"},
    {"hw:mem_encryption": "true"},
    {"hw:mem_encryption": "true", "trait1:CUSTOM_T1": "required"},
    {"aggregate_instance_extra_specs:rack": "r1"},
)
IMAGES: tuple[dict[str, str], ...] = ({}, {}, {"hw_architecture": "aarch64"})
FLAVORS: dict[str, dict[str, str]] = {
    "f": {}, "g": {"resources:VGPU": "1"},
    "t": {"resources:VGPU": "1", "trait:CUSTOM_T1": "required"},
}  # fmt: skip
ENCRYPTED = {"hw_firmware_type": "uefi", "hw_machine_type": "q35"}


@dataclasses.dataclass
class Server:
    """A server of nova, and the specs of its flavor."""

    host: str
    vcpus: int
    specs: dict[str, str]
    fields: dict[str, Any]

    def allocations(self, card: str | None, disks: str) -> dict[str, dict[str, int]]:
        """What it has in Placement, where its host has this card."""
        amounts = {self.host: {"VCPU": self.vcpus, "MEMORY_MB": 8}}
        amounts.setdefault(disks, {})["DISK_GB"] = 2
        if "hw:mem_encryption" in self.specs and card is None:
            amounts[f"{self.host}-sev"] = {"MEM_ENCRYPTION_CONTEXT": 1}
        if cards := sum(int(amount) for key, amount in self.specs.items() if "VGPU" in key):
            amounts[f"{self.host}-card"] = {"VGPU": cards}
        return amounts


class Cloud:
    """Hosts with cards, perhaps a shared pool, dead hosts, two racks and a project's aggregate."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.is_shared = draw.random() < 0.3
        self.rack = {host: draw.choice(("r1", "r2")) for host in HOSTS}
        self.arch = {host: draw.choice(("x86_64", "x86_64", "x86_64", "aarch64")) for host in HOSTS}
        self.version = {host: draw.choice((8002000, 8002000, 7002000)) for host in HOSTS}
        self.card = {host: draw.choice((None, "CUSTOM_T1", "CUSTOM_T2")) for host in HOSTS}
        self.state: dict[str, dict[str, Any]] = {
            host: draw.choice(({}, {}, {}, {"state": "down"}, {"status": "disabled"}))
            for host in HOSTS
        }
        self.tenant = draw.choice((None, None, "p"))
        self.servers: dict[str, Server] = {}
        for number in range(7):
            self._add(f"s{number}")
        members = draw.sample(sorted(self.servers), draw.choice((0, 2, 3)))
        policy = draw.choice(("affinity", "anti-affinity", "soft-affinity"))
        self.groups = [
            {"id": uuid_of("group"), "name": "db", "policy": policy, "rules": {},
             "members": [uuid_of(name) for name in members]}
        ] if members else []  # fmt: skip

    def _add(self, name: str) -> None:
        draw = self.draw
        host, specs, image = draw.choice(HOSTS), dict(draw.choice(SPECS)), draw.choice(IMAGES)
        vcpus, there = draw.choice((1, 2, 3)), self.servers_of(host)
        if sum(self.servers[it].vcpus for it in there) + vcpus > 8:
            return
        if "VGPU" in str(specs) and not self._takes_card(host, specs):
            return
        state, power = draw.choice((*[("active", 1)] * 4, ("stopped", 4), ("paused", 3)))
        image = {**image, **(ENCRYPTED if "hw:mem_encryption" in specs else {})}
        fields = {"project": draw.choice("pq"), "vm_state": state, "power_state": power}
        fields["image"] = {"id": uuid_of("image"), "properties": image}
        self.servers[name] = Server(host, vcpus, specs, fields)

    def _takes_card(self, host: str, specs: dict[str, str]) -> bool:
        cards = ("CUSTOM_T1",) if "trait:CUSTOM_T1" in specs else ("CUSTOM_T1", "CUSTOM_T2")
        with_card = [it for it in self.servers_of(host) if "VGPU" in str(self.servers[it].specs)]
        return self.card[host] in cards and not with_card

    def now(self) -> testing.Cloud:
        """Both halves, by where each server is now."""
        cloud = testing.Cloud("nova-{}")
        for host in HOSTS:
            own = {} if self.is_shared else {"DISK_GB": 20}
            traits = ["COMPUTE_STATUS_DISABLED"] if "status" in self.state[host] else []
            traits += ["COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_CRB"]
            traits += ["HW_CPU_X86_AMD_SEV"] if self.card[host] is None else []
            cloud.host(host, VCPU=8, MEMORY_MB=64, aggregates=["pool", self.rack[host]],
                       traits=traits, **own)  # fmt: skip
            cloud.node(host, service=self.state[host], cpu_info={"arch": self.arch[host]},
                       hypervisor_type="QEMU", hypervisor_version=self.version[host])  # fmt: skip
            if self.card[host] is None:
                cloud.child(host, f"{host}-sev", MEM_ENCRYPTION_CONTEXT=4,
                            traits=["HW_CPU_X86_AMD_SEV"])  # fmt: skip
            else:
                cloud.child(host, f"{host}-card", VGPU=2, traits=[self.card[host]])
        if self.is_shared:
            cloud.host("pool0", DISK_GB=100, aggregates=["pool"],
                       traits=["MISC_SHARES_VIA_AGGREGATE"])  # fmt: skip
        for name, server in self.servers.items():
            disks = "pool0" if self.is_shared else server.host
            allocations = server.allocations(self.card[server.host], disks)
            cloud.server(name, allocations, type="unknown")
            size = {"vcpus": server.vcpus, "ram": 8, "disk": 2, "extra_specs": server.specs}
            cloud.instance(name, server.host, flavor="f", **size, **server.fields)
        tenant = {"filter_tenant_id": self.tenant} if self.tenant else {}
        for rack in ("r1", "r2"):
            members = [host for host in HOSTS if self.rack[host] == rack]
            cloud.aggregate(rack, members, rack=rack, **tenant)
        for name, specs in FLAVORS.items():
            cloud.flavor(name, vcpus=2, ram=16, extra_specs=specs)
        cloud.parts["server_groups"] += self.groups
        return cloud

    def servers_of(self, host: str) -> list[str]:
        """The names of the servers on a host."""
        return [name for name, server in self.servers.items() if server.host == host]

    def move(self, name: str, host: str) -> None:
        """Where a server is after a step."""
        self.servers[name].host = host


class Commands:
    """The commands on a cloud in its present state."""

    def __init__(self, cloud: Cloud, folder: pathlib.Path) -> None:
        self.cloud, self._folder, self._number = cloud, folder, 0
        self.show()

    def show(self) -> None:
        """Write the present state for the commands."""
        self._number += 1
        database = self._folder / f"placement-{self._number}.sqlite"
        cloud = self.cloud.now()
        targets.OnFile(database).load(cloud.document())
        self.answers = cloud.nova()
        self._open(database)

    def _open(self, database: pathlib.Path) -> None:
        self._database = database
        self._openstack = OpenStack(targets.OnFile(database))
        path = str(database.with_suffix(".json"))
        self._nova = nova_recording(self.answers, path)

    def json(self, command: str, *arguments: str) -> tuple[int, Any]:
        """Exit code and JSON of a command; REFUSED without JSON."""
        options = (*arguments, *RELEASE, *self._nova, "-f", "json")
        outcome = self._openstack.run(command, *options)
        assert outcome.code in (YES, NO, UNKNOWN, REFUSED), outcome
        if not outcome.stdout:
            return outcome.code, outcome.stderr
        return outcome.code, json.loads(outcome.stdout)

    def copied(self) -> Commands:
        """The same commands on a copy of the cloud."""
        copy = Commands.__new__(Commands)
        copy.__dict__ |= self.__dict__
        copy._folder = pathlib.Path(tempfile.mkdtemp(dir=self._folder))
        copy.answers = json.loads(json.dumps(self.answers))
        database = copy._folder / "copy.sqlite"
        database.write_bytes(self._database.read_bytes())
        copy._open(database)
        return copy

    def run_step(self, step: dict[str, Any], command: str) -> None:
        """Type what a step of a change prints; what nova does is written into its answers."""
        _, *words = shlex.split(command)
        if step["action"] == "enable":
            services = self.answers["GET /v2.1/os-services"]["services"]
            (service,) = (it for it in services if it["host"] == words[3])
            service["status"] = "enabled"
            words = [*REMOVE_TRAIT, step["name"], uuid_of(step["provider"])]
        if step["action"] == "free":
            shown = self._openstack(f"resource provider inventory show {words[-1]}", step["name"])
            total = shown["total"] + step["amount"]
            words = [*AMEND, f"{step['name']}:total={total}", words[-1]]
        outcome = self._openstack.run(shlex.join(words))
        assert outcome.code == 0, (command, outcome)
        self._open(self._database)

    def explained(self, name: str, way: str, host: str = "") -> int:
        """The exit code of explain for a server of the cloud."""
        to_host = ("--to-host", f"nova-{host}") if host else ()
        code, self.last = self.json(EXPLAIN, "--server", uuid_of(name), "--for", way, *to_host)
        return code


@pytest.fixture
def commands(seed: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(Cloud(random.Random(f"two commands {seed}")), tmp_path)


def check_steps(commands: Commands, code: int, planned: Any) -> None:
    """Each step is accepted where it begins; one that is not known is said (``not_checked``)."""
    for move in planned["moves"] or ():
        host = move["to"].removeprefix("nova-")
        answer = commands.explained(move["name"], WAYS[move["way"]], host)
        allowed = (YES, UNKNOWN) if planned["not_checked"] else (YES,)
        assert answer in allowed, (move, answer, code, commands.last)
        commands.cloud.move(move["name"], host)
        commands.show()


def test_each_step_of_drain_is_accepted_by_explain(commands: Commands) -> None:
    host = commands.cloud.draw.choice(HOSTS)
    code, planned = commands.json("placement host drain", host)
    if isinstance(planned, str):
        assert "nova-compute is down" in planned
        for name in commands.cloud.servers_of(host):
            for way in WAYS.values():
                assert commands.explained(name, way) in (NO, REFUSED)
        return
    check_steps(commands, code, planned)


def test_each_step_of_make_room_is_accepted_by_explain(commands: Commands) -> None:
    flavor = commands.cloud.draw.choice(sorted(FLAVORS))
    code, planned = commands.json("placement capacity make-room", "--flavor", flavor)
    if not isinstance(planned, str):
        check_steps(commands, code, planned)


def test_a_server_without_another_host_has_none_in_explain(commands: Commands) -> None:
    host = commands.cloud.draw.choice(HOSTS)
    code, answer = commands.json("placement host check", host)
    for row in answer["unplaced"] or ():
        name = row["name"]
        ways = ("evacuate",) if "state" in commands.cloud.state[host] else tuple(WAYS.values())
        answers = {way: commands.explained(name, way) for way in ways}
        if "cold: openstack server migrate" in str(row["reasons"]):
            assert answers.pop("migrate") in (YES, UNKNOWN), row["reasons"]
        assert YES not in answers.values(), (row["reasons"], answers, code)


def check_cause(commands: Commands, name: str, reasons: list[str], ways: Sequence[str]) -> None:
    """Each reason is one that explain names for the way that nova does not refuse at once."""
    texts = []
    for way in ways:
        if commands.explained(name, way) != REFUSED:
            break
        texts.append(commands.last.strip().splitlines()[-1].removeprefix(f"{_label(name)}: "))
    else:
        assert reasons == ["; ".join(dict.fromkeys(texts))]
        return
    if any(reason.startswith(AIMED) for reason in reasons):
        hosts = [row["host"] for row in commands.last if row["section"] == "candidate"]
        assert hosts
        for host in hosts:
            assert commands.explained(name, way, host) == NO
            assert any("in_tree=" in it["text"] for it in commands.last if it["section"] == "cause")
        return
    causes = [row["text"] for row in commands.last if row["section"] == "cause"]
    refused = {row["host"]: row["text"] for row in commands.last if row["section"] == "not-counted"}
    for reason in reasons:
        if reason.startswith(NO_ROOM):
            assert reason.removeprefix(NO_ROOM) in causes, (reason, causes)
        elif reason.startswith(REFUSING):
            assert not causes
            text = reason.removeprefix(REFUSING).split("; not live, but cold: ")[0]
            named = re.findall(r"(?<![-\w])h\d(?=,| \()", text)
            assert named
            for host in named:
                assert any(f"({why})" in text for why in refused[host].split("; ")), (host, text)
        else:
            assert reason.startswith(OF_SEVERAL), reason


def _label(name: str) -> str:
    return f"server {name} ({uuid_of(name)})"


def test_the_cause_of_a_server_that_stays_is_that_of_explain(commands: Commands) -> None:
    host = commands.cloud.draw.choice(HOSTS)
    is_dead = "state" in commands.cloud.state[host]
    ways = ("evacuate",) if is_dead else tuple(WAYS.values())
    _, checked = commands.json("placement host check", host)
    for row in checked["unplaced"] or ():
        check_cause(commands, row["name"], row["reasons"], ways)
    if not is_dead:
        _, drained = commands.json("placement host drain", host)
        for row in drained["blocked"] or ():
            check_cause(commands, row["name"], row["reasons"], ways)


def test_the_cause_of_a_host_that_may_not_fail_is_that_of_explain(commands: Commands) -> None:
    _, rows = commands.json("placement capacity show", "--flavor", "f", "--keep", "1")
    unsafe = [host for row in rows for host in row["unsafe_hosts"] or ()]
    if unsafe:
        notes = [text for row in rows for text in row["notes"]]
        assert any("no place if its host fails" in text for text in notes), rows
    for host in unsafe:
        commands.cloud.state[host] = {"state": "down"}
        commands.show()
        _, checked = commands.json("placement host check", host)
        for server in checked["unplaced"] or ():
            why = "; ".join(server["reasons"])
            assert any(why in text for text in notes), (why, notes)


def carried_out(commands: Commands, change: dict[str, Any]) -> Commands:
    """A copy of the cloud after the commands of a change."""
    copy = commands.copied()
    for step, command in zip(change["details"]["steps"], change["commands"], strict=True):
        copy.run_step(step, command)
    return copy


def test_each_printed_change_gives_the_server_the_hosts_that_it_says(commands: Commands) -> None:
    for name, server in sorted(commands.cloud.servers.items()):
        is_dead = "state" in commands.cloud.state[server.host]
        for way in ("evacuate",) if is_dead else tuple(WAYS.values()):
            if commands.explained(name, way) == REFUSED:
                continue
            changes = [row for row in commands.last if row["section"] == "change"]
            for change in changes:
                details = change["details"]
                assert change["hosts"]
                assert details["steps"]
                assert change["host"] != server.host
                assert not details["remove"]
                assert not details["amounts"]
                copy = carried_out(commands, change)
                answer = copy.explained(name, way)
                hosts = [row["host"] for row in copy.last if row["section"] == "candidate"]
                assert answer in (YES, UNKNOWN), (change, copy.last)
                assert len(hosts) == change["hosts"], (change, hosts)


def test_the_hosts_of_capacity_are_those_of_explain(commands: Commands) -> None:
    for flavor in FLAVORS:
        _, rows = commands.json("placement capacity show", "--flavor", flavor, "--by", "host")
        _, explained = commands.json(EXPLAIN, "--flavor", flavor)
        fitting = {row["part"] for row in rows if row["fits"]}
        assert fitting == {row["host"] for row in explained if row["section"] == "candidate"}
