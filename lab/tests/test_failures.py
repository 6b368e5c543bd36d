# SPDX-License-Identifier: Apache-2.0
"""Servers that fail for a known cause on a real nova, and what explain says is the cause.

The cloud is that of the program in ``LAB_MOVES``, as for ``test_drain``. Each case gives the cloud
or the request one fault, boots a server that ends in ERROR, and takes the fault back. The kind of
the failure comes from nova's API alone, the cause also from the logs.
``OSC_PLACEMENT_LAB_CASES`` is the number of cases (default: each one once), and
``OSC_PLACEMENT_LAB_SEED`` selects them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
import pathlib
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from lab.tests import test_drain

pytestmark = [*test_drain.pytestmark, pytest.mark.timeout(7200)]

HOSTS = tuple(f"moves-{number}" for number in range(1, 7))
ZONES = {"zone-a": HOSTS[:3], "zone-b": HOSTS[3:]}
LOGS = ("scheduler.log", "placement.log", "conductor.log")
#: Standard traits that no host of the lab has.
TRAITS = ("HW_CPU_X86_AVX512F", "HW_GPU_API_VULKAN", "HW_CPU_X86_SGX", "STORAGE_DISK_SSD")


class Faults:
    """The cloud, and ways to break it for the time of one case."""

    def __init__(self, cloud: test_drain.Cloud, choose: random.Random) -> None:
        self.cloud, self.choose = cloud, choose
        sys.path.insert(0, str(pathlib.Path(test_drain.PROGRAM).parent))
        self.moves: Any = importlib.import_module("moves")
        self.api: Any = self.moves.Api()
        self.uuids = {
            item["name"]: item["uuid"]
            for item in self.placement("GET", "/resource_providers")["resource_providers"]
        }
        self._number = 0
        show = "openstack project show admin -f value -c id"
        self._project = cloud.bash(show).stdout.strip()
        self.set_quota(instances=-1, cores=-1, ram=-1, server_groups=-1)
        #: The servers of this case.
        self.created: list[str] = []
        with contextlib.suppress(self.moves.Refused):
            self.placement("PUT", "/resource_classes/CUSTOM_LAB_GPU")

    def nova(self, method: str, path: str, body: Any = None) -> Any:
        return self.api.nova(method, path, body)

    def placement(self, method: str, path: str, body: Any = None, version: str = "1.38") -> Any:
        return self.api(method, "placement", path, body, version)

    def name(self, what: str) -> str:
        self._number += 1
        return f"{what}-{os.getpid()}-{self._number}"

    def flavor(self, specs: Mapping[str, str] | None = None, **numbers: int) -> str:
        """A new flavor, by ID."""
        name = self.name("f")
        values = {"vcpus": 1, "ram": 512, "disk": 1, **numbers}
        self.nova("POST", "/flavors", {"flavor": {"name": name, "id": name, **values}})
        if specs:
            self.nova("POST", f"/flavors/{name}/os-extra_specs", {"extra_specs": dict(specs)})
        return name

    def image(self, **properties: str) -> str:
        """A new image, by ID: a line in the file of the lab's glance."""
        path = pathlib.Path(self.moves.path("neutron.json"))
        content = json.loads(path.read_text())
        (first, *_) = content["images"].values()
        uuid = f"1ab00000-0000-4000-8000-{self.choose.randrange(16**12):012x}"
        content["images"][uuid] = {**first, "id": uuid, "name": uuid, **properties}
        path.write_text(json.dumps(content))
        return uuid

    def group(self, policy: str, *zones: str) -> str:
        """A new server group with an active member in each zone, by ID."""
        body = {"server_group": {"name": self.name("g"), "policy": policy}}
        uuid = self.nova("POST", "/os-server-groups", body)["server_group"]["id"]
        for zone in zones:
            created = self.boot({"availability_zone": zone, "group": uuid})
            self.moves.settle(self.api, created, ("ACTIVE",))
        return str(uuid)

    def boot(self, fields: Mapping[str, Any]) -> str:
        """A new server, by UUID; ``group`` is a scheduler hint."""
        server = {"flavorRef": "small", "imageRef": self.moves.IMAGE, "networks": "none"}
        body: dict[str, Any] = {"server": {**server, "name": self.name("s"), **fields}}
        if group := body["server"].pop("group", None):
            body["os:scheduler_hints"] = {"group": group}
        self.created.append(str(self.nova("POST", "/servers", body)["server"]["id"]))
        return self.created[-1]

    def failed(self) -> str:
        """The server of this case that ended in ERROR, by UUID."""

        def listed() -> Sequence[str]:
            servers = {item["id"]: item["status"] for item in self.api.servers()}
            return [uuid for uuid in self.created if servers.get(uuid) == "ERROR"]

        return str(self.moves.wait("a server in ERROR", listed)[0])

    def explain(self, uuid: str) -> list[dict[str, Any]]:
        """The rows of the answer about a server, with the logs."""
        logs = " ".join(f"--request-log {self.moves.path('log', name)}" for name in LOGS)
        command = f"openstack allocation candidate explain --server {uuid} {logs} -f json"
        done = self.cloud.bash(command)
        assert done.returncode in (0, 3, 4), done.stderr
        return list(json.loads(done.stdout))

    def clear(self) -> None:
        """Delete the servers of the case."""
        self.cloud.do("delete")
        self.created.clear()

    @contextlib.contextmanager
    def full(self, resource_class: str) -> Iterator[None]:
        """No host has room for a class."""
        consumers = []
        for host in HOSTS:
            path = f"/resource_providers/{self.uuids[host]}"
            inventory = self.placement("GET", f"{path}/inventories")["inventories"][resource_class]
            used = self.placement("GET", f"{path}/usages")["usages"][resource_class]
            room = (inventory["total"] - inventory["reserved"]) * inventory["allocation_ratio"]
            left = int(room) - used
            while left > 0:
                amount = min(left, inventory["max_unit"])
                left -= amount
                uuid = f"f0110000-0000-4000-8000-{self.choose.randrange(16**12):012x}"
                amounts = {self.uuids[host]: {"resources": {resource_class: amount}}}
                body = {
                    "allocations": amounts, "project_id": "lab", "user_id": "lab",
                    "consumer_generation": None, "consumer_type": "OTHER",
                }  # fmt: skip
                self.placement("PUT", f"/allocations/{uuid}", body)
                consumers.append(uuid)
        try:
            yield
        finally:
            for uuid in consumers:
                self.placement("DELETE", f"/allocations/{uuid}")

    @contextlib.contextmanager
    def without_aggregates(self, hosts: Sequence[str]) -> Iterator[None]:
        """Placement has no host aggregates of these hosts."""
        saved = {}
        for host in hosts:
            path = f"/resource_providers/{self.uuids[host]}/aggregates"
            saved[path] = self.placement("GET", path)["aggregates"]
            self._set_aggregates(path, [])
        try:
            yield
        finally:
            for path, aggregates in saved.items():
                self._set_aggregates(path, aggregates)

    def _set_aggregates(self, path: str, aggregates: Sequence[str]) -> None:
        generation = self.placement("GET", path)["resource_provider_generation"]
        body = {"aggregates": aggregates, "resource_provider_generation": generation}
        self.placement("PUT", path, body)

    @contextlib.contextmanager
    def services(self, hosts: Sequence[str], **changes: Any) -> Iterator[None]:
        """Compute services are changed: ``status``, ``forced_down``."""
        ids = {item["host"]: item["id"] for item in self.api.services()}
        back = {"status": "enabled"} if "status" in changes else {"forced_down": False}
        for host in hosts:
            self.nova("PUT", f"/os-services/{ids[host]}", changes)
        if "status" in changes:
            self._wait_for_status(hosts, present=True)
        try:
            yield
        finally:
            for host in hosts:
                self.nova("PUT", f"/os-services/{ids[host]}", back)
            self._wait_for_status(hosts, present=False)

    def _wait_for_status(self, hosts: Sequence[str], *, present: bool) -> None:
        def is_so() -> bool:
            return all(
                ("COMPUTE_STATUS_DISABLED" in self._traits(host)) is present for host in hosts
            )

        self.moves.wait("the trait of disabled services", is_so)

    def _traits(self, host: str) -> Sequence[str]:
        path = f"/resource_providers/{self.uuids[host]}/traits"
        return list(self.placement("GET", path)["traits"])

    @contextlib.contextmanager
    def failing(self, hosts: Sequence[str]) -> Iterator[None]:
        """The hypervisors of these hosts fail to start the next guest."""
        for host in hosts:
            self.moves.hold(host, "spawn", "fail")
        try:
            yield
        finally:
            self.moves.release()

    @contextlib.contextmanager
    def quota(self, servers: int) -> Iterator[None]:
        """A quota for servers, which both of two requests meet while the conductor waits."""
        self.set_quota(instances=servers)
        self.moves.group("conductor", self.moves.signal.SIGSTOP)
        try:
            yield
        finally:
            self.thaw()
            self.set_quota(instances=-1)

    def set_quota(self, **limits: int) -> None:
        self.nova("PUT", f"/os-quota-sets/{self._project}", {"quota_set": limits})

    def thaw(self) -> None:
        self.moves.group("conductor", self.moves.signal.SIGCONT)


@dataclasses.dataclass(frozen=True)
class Case:
    """A fault: the kind of the failure, a text of its cause, the request, and the fault itself."""

    kind: str
    cause: str
    asked: Callable[[Faults], Mapping[str, Any]]
    fault: Callable[[Faults], contextlib.AbstractContextManager[None]] = lambda _: (
        contextlib.nullcontext()
    )
    #: What is done after the request.
    after: Callable[[Faults], None] = lambda _: None


def no_candidates(cause: str, specs: Mapping[str, str] | None = None, **numbers: int) -> Case:
    return Case(
        "no-candidates", cause, lambda faults: {"flavorRef": faults.flavor(specs, **numbers)}
    )


def full(resource_class: str, amount: int) -> Case:
    cause = f"resources={resource_class}:{amount}"
    return Case("no-candidates", cause, lambda _: {}, lambda faults: faults.full(resource_class))


def plain(_: Faults) -> Mapping[str, Any]:
    return {}


def in_zone(zone: str) -> Callable[[Faults], Mapping[str, Any]]:
    return lambda _: {"availability_zone": zone}


@contextlib.contextmanager
def one_host(faults: Faults, zone: str) -> Iterator[None]:
    """Only one host of the zone is enabled, and its hypervisor fails."""
    only, *others = ZONES[zone]
    with faults.services(others, status="disabled"), faults.failing([only]):
        yield


@contextlib.contextmanager
def two_of_one(faults: Faults) -> Iterator[None]:
    """Another request takes the last server of the quota at the same time."""
    used = faults.nova("GET", "/limits")["limits"]["absolute"]["totalInstancesUsed"]
    with faults.quota(used + 1):
        faults.boot({})
        yield


SPAWN = "the lab fails spawn"

CASES: Mapping[str, Callable[[random.Random], Case]] = {
    "no inventory of the class": lambda _: no_candidates(
        "resources=CUSTOM_LAB_GPU:1", {"resources:CUSTOM_LAB_GPU": "1"}
    ),
    "unknown class": lambda _: no_candidates("CUSTOM_LAB_NONE", {"resources:CUSTOM_LAB_NONE": "1"}),
    "missing trait": lambda choose: no_candidates(
        f"required={(trait := choose.choice(TRAITS))}", {f"trait:{trait}": "required"}
    ),
    "unknown trait": lambda _: no_candidates("CUSTOM_LAB_NO", {"trait:CUSTOM_LAB_NO": "required"}),
    "forbidden trait": lambda _: no_candidates(
        "required=!COMPUTE_NODE", {"trait:COMPUTE_NODE": "forbidden"}
    ),
    "trait of the image": lambda choose: Case(
        "no-candidates",
        f"required={(trait := choose.choice(TRAITS))}",
        lambda faults: {"imageRef": faults.image(**{f"trait:{trait}": "required"})},
    ),
    "zone that Placement does not have": lambda choose: Case(
        "no-candidates",
        "member_of=",
        in_zone(zone := choose.choice(sorted(ZONES))),
        lambda faults: faults.without_aggregates(ZONES[zone]),
    ),
    "full memory": lambda _: full("MEMORY_MB", 512),
    "full CPUs": lambda _: full("VCPU", 1),
    "full disks": lambda _: full("DISK_GB", 1),
    "more CPUs than a host has": lambda choose: no_candidates(
        f"resources=VCPU:{(count := choose.randrange(17, 64))}", vcpus=count
    ),
    "more memory than a host has": lambda choose: no_candidates(
        f"resources=MEMORY_MB:{(ram := choose.randrange(200_000, 900_000))}", ram=ram
    ),
    "all hosts are disabled": lambda _: Case(
        "no-candidates",
        "COMPUTE_STATUS_DISABLED",
        plain,
        lambda faults: faults.services(HOSTS, status="disabled"),
    ),
    "capabilities": lambda _: Case(
        "no-host",
        "ComputeCapabilitiesFilter refused",
        lambda faults: {"flavorRef": faults.flavor({"capabilities:hypervisor_type": "xen"})},
    ),
    "architecture of the image": lambda choose: Case(
        "no-host",
        "ImagePropertiesFilter refused",
        lambda faults: {
            "imageRef": faults.image(hw_architecture=choose.choice(("aarch64", "ppc64le")))
        },
    ),
    "anti-affinity": lambda choose: Case(
        "no-host",
        "ServerGroupAntiAffinityFilter refused",
        lambda faults: {
            "group": faults.group("anti-affinity", *[(zone := choose.choice(sorted(ZONES)))] * 3),
            "availability_zone": zone,
        },
    ),
    "affinity": lambda _: Case(
        "no-host",
        "ServerGroupAffinityFilter refused",
        lambda faults: {
            "group": faults.group("affinity", "zone-a"),
            "availability_zone": "zone-b",
        },
    ),
    "hosts are forced down": lambda choose: Case(
        "no-host",
        "ComputeFilter refused",
        in_zone(zone := choose.choice(sorted(ZONES))),
        lambda faults: faults.services(ZONES[zone], forced_down=True),
    ),
    "three hypervisors fail": lambda choose: Case(
        "builds",
        SPAWN,
        in_zone(zone := choose.choice(sorted(ZONES))),
        lambda faults: faults.failing(ZONES[zone]),
    ),
    "the hypervisor of the named host fails": lambda choose: Case(
        "builds",
        SPAWN,
        lambda _: {"host": choose.choice(HOSTS)},
        lambda faults: faults.failing(HOSTS),
    ),
    "the hypervisor of the only host fails": lambda choose: Case(
        "builds",
        SPAWN,
        in_zone(zone := choose.choice(sorted(ZONES))),
        lambda faults: one_host(faults, zone),
    ),
    "quota": lambda _: Case("other", "Quota exceeded", plain, two_of_one, Faults.thaw),
}


@pytest.fixture
def faults(tmp_path: pathlib.Path) -> Iterator[Faults]:
    running = test_drain.Cloud(tmp_path)
    seed = int(os.environ.get("OSC_PLACEMENT_LAB_SEED", "57"))
    try:
        yield Faults(running, random.Random(seed))
    finally:
        running.do("release", "--all")
        running.do("delete")


def first(text: str) -> str:
    """The cause that is named first: without the other constraints of "A or B"."""
    return text.partition(" or ")[0]


def test_the_cause_of_a_failure_is_the_one_that_was_made(faults: Faults) -> None:
    count = int(os.environ.get("OSC_PLACEMENT_LAB_CASES", str(len(CASES))))
    names = [name for _ in range(-(-count // len(CASES))) for name in CASES][:count]
    faults.choose.shuffle(names)
    wrong_kind, unknown, wrong = [], [], []
    for name in names:
        case = CASES[name](faults.choose)
        with case.fault(faults):
            faults.boot(case.asked(faults))
            case.after(faults)
            rows = faults.explain(faults.failed())
        faults.clear()
        (failed,) = [row for row in rows if row["section"] == "failed"]
        cause = rows[0]
        print(f"{name}: {failed['reason']}: {cause['reason']}: {cause['text']}")
        if failed["reason"] != case.kind:
            wrong_kind.append((name, failed))
        if cause["reason"] == "unknown":
            unknown.append((name, cause))
        elif case.cause not in first(cause["text"]):
            wrong.append((name, cause))
    print(f"{count} failures, right cause {count - len(unknown) - len(wrong)}, unknown {unknown}")
    assert (wrong_kind, wrong) == ([], [])
    assert len(unknown) <= count * 5 // 100
