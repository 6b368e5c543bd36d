# SPDX-License-Identifier: Apache-2.0
"""The hosts for a move of a server, against claims on the reference server and nova's filters."""

from __future__ import annotations

import collections
import dataclasses
import random
from collections.abc import Mapping
from typing import Any

import pytest

from osc_placement import errors, microversion, testing
from osc_placement.nova import api as nova_api
from osc_placement.scheduling import nova_options
from osc_placement.scheduling.case import Way
from osc_placement.testing import service
from osc_placement.testing.cloud import uuid_of
from osc_placement.workflows.cloud import cases, compute_nodes, nova_request
from osc_placement.workflows.cloud.cases import MoveRequest
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.explain import explain, holders
from tests.support import fake_neutron
from tests.support.candidates import clouds, explained
from tests.support.clouds import compute_services

SERVER, OTHER, GONE = map(uuid_of, ("server", "other", "gone"))
ZONE, OTHER_ZONE = "az1", "az2"
IMAGE = "00000000-0000-4000-8000-0000000000d1"
TRAIT, DISABLED = "HW_CPU_X86_AVX", "COMPUTE_STATUS_DISABLED"
STATES = ("active", "paused", "stopped", "error", "shelved", "shelved_offloaded", "rescued")
#: The states that nova accepts for each move, written down again.
ACCEPTED = {
    "live-migrate": {"active", "paused"},
    "migrate": {"active", "stopped"},
    "resize": {"active", "stopped"},
    "evacuate": {"active", "stopped", "error"},
    "unshelve": {"shelved_offloaded"},
}


@dataclasses.dataclass
class Flavor:
    vcpus: int
    ram: int
    gpus: int = 0
    needs_trait: bool = False

    def fields(self) -> dict[str, Any]:
        specs = {"resources:VGPU": str(self.gpus)} if self.gpus else {}
        specs |= {f"trait:{TRAIT}": "required"} if self.needs_trait else {}
        return {"vcpus": self.vcpus, "ram": self.ram, "extra_specs": specs}


class MovingCloud:
    """A random cloud of hosts with VGPU children, and a server on the host 0 or on none."""

    def __init__(self, placement: service.InProcessPlacement, seed: object, kind: str) -> None:
        draw = self.draw = random.Random(f"moves {seed} {kind}")
        self.placement, self.count = placement, 6
        self.services = [draw.choice(["up", "up", "up", "down", "disabled"]) for _ in range(6)]
        usual = "down" if kind == "evacuate" else "up"
        self.services[0] = draw.choice([usual, usual, usual, "up", "down"])
        self.traits = [draw.choice([TRAIT, TRAIT, ""]) for _ in range(6)]
        self.zones = [draw.choice([ZONE, ZONE, OTHER_ZONE]) for _ in range(6)]
        self.old, self.new = self._flavor(), self._flavor()
        self.state = draw.choice([*sorted(ACCEPTED[kind]) * 4, *STATES])
        self.task = draw.choice([*[None] * 9, "powering-off"])
        self.zone = draw.choice([None, "az1"])
        self.is_offloaded = self.state == "shelved_offloaded"
        self.policy = draw.choice(["", "affinity", "anti-affinity"])
        self.members = {f"member-{n}": f"h{draw.randrange(6)}" for n in range(draw.randrange(3))}
        self.gpus = [draw.randrange(1, 3) for _ in range(6)]
        explained.seed(placement, clouds.state_of(self.now()))
        self.client = placement.client(microversion.MAXIMUM)
        for number in range(6):
            others = Flavor(draw.randrange(1, 6), draw.randrange(1, 40))
            self.claims(others, number, uuid_of(f"other {number}"))
        if not self.is_offloaded:
            # What the server has counts beside what it claims; it may not fit any more.
            self.claims(self.old, 0, SERVER)

    def _flavor(self) -> Flavor:
        draw = self.draw
        vcpus, ram = draw.randrange(1, 5), draw.randrange(1, 40)
        return Flavor(vcpus, ram, draw.randrange(2), draw.choice([True, False]))

    def claims(self, flavor: Flavor, number: int, consumer: str) -> bool:
        """Claim a flavor on a host; whether Placement accepts it."""
        resources = {"VCPU": flavor.vcpus, "MEMORY_MB": flavor.ram}
        body: dict[str, Any] = {uuid_of(f"h{number}"): {"resources": resources}}
        if flavor.gpus:
            body[uuid_of(f"h{number}.0")] = {"resources": {"VGPU": flavor.gpus}}
        session = self.placement.session()
        answer = session.put(
            f"{self.placement.url}/allocations/{consumer}",
            json={
                "allocations": body, "project_id": "p", "user_id": "u",
                "consumer_generation": None, "consumer_type": "INSTANCE",
            },
            headers={"OpenStack-API-Version": "placement 1.38"},
        )  # fmt: skip
        return answer.status_code == 204

    def can_claim(self, flavor: Flavor, number: int) -> bool:
        """Whether the server could claim a flavor there beside what it has; nothing stays."""
        consumer = "00000000-0000-4000-8000-0000000000ff"
        if not self.claims(flavor, number, consumer):
            return False
        self.placement.session().delete(f"{self.placement.url}/allocations/{consumer}")
        return True

    def now(self) -> testing.Cloud:
        """The hosts, in service or not; the server, and the members of its group."""
        cloud = testing.Cloud("nova-{}")
        for number in range(6):
            host, state = f"h{number}", self.services[number]
            traits = [self.traits[number]] if self.traits[number] else []
            traits += [DISABLED] if state == "disabled" else []
            cloud.compute(host, service=compute_services.STATES[state], traits=traits,
                          aggregates=[self.zones[number]], VCPU=8, MEMORY_MB=64)  # fmt: skip
            cloud.child(host, f"{host}.0", VGPU=self.gpus[number])
        fields = {"vm_state": self.state, "task_state": self.task, "project": "p", "user": "u",
                  "image": {"id": IMAGE, "properties": {}},
                  "pinned_availability_zone": self.zone, "flavor": "old"}  # fmt: skip
        on_hosts = {"server": None if self.is_offloaded else "h0", **self.members}
        for name, host in on_hosts.items():
            cloud.instance(name, host, **fields, **self.old.fields())
        for zone in (ZONE, OTHER_ZONE):
            members = [f"h{number}" for number in range(6) if self.zones[number] == zone]
            cloud.aggregate(zone, members, availability_zone=zone)
        cloud.flavor("old", **self.old.fields()).flavor("new", **self.new.fields())
        uuids = [uuid_of(name) for name in on_hosts]
        group = {"id": "g", "name": "db", "policy": self.policy, "rules": {}, "members": uuids}
        cloud.parts["server_groups"] += [group] if self.policy else []
        return cloud

    def nova(self) -> nova_api.RecordedNova:
        cloud = self.now()
        single = {
            f"GET /v2.1/servers/detail?uuid={shown['id']}": {"servers": [shown]}
            for shown in cloud.parts["servers"]
        }
        return nova_api.RecordedNova({**cloud.nova(), **single}, "a test")

    def expected(self, kind: str, *, same_host: bool) -> set[str] | None:
        """The hosts by brute force; None if nova refuses the move at once."""
        is_up = self.services[0] == "up"
        if self.state not in ACCEPTED[kind] or (self.task and kind != "evacuate"):
            return None
        if kind != "unshelve" and (kind == "evacuate") == is_up:
            return None
        flavor = self.new if kind == "resize" else self.old
        return {
            f"h{number}"
            for number in range(6)
            if self._accepts(number, flavor, leaves_source=not (kind == "resize" and same_host))
        }

    def _accepts(self, number: int, flavor: Flavor, *, leaves_source: bool) -> bool:
        is_source = number == 0 and not self.is_offloaded
        own, host = [] if self.is_offloaded else ["h0"], f"h{number}"
        others = list(self.members.values())
        if is_source and leaves_source:
            return False
        if self.services[number] != "up" or (flavor.needs_trait and not self.traits[number]):
            return False
        if self.zone and self.zones[number] != ZONE:
            return False
        if self.policy == "anti-affinity" and host in others:
            return False
        if self.policy == "affinity" and others + own and host not in others + own:
            return False
        return self.can_claim(flavor, number)

    def asked(
        self,
        kind: str,
        to_host: str | None = None,
        *,
        same_host: bool = False,
        nova: nova_api.RecordedNova | None = None,
    ) -> set[str]:
        """The hosts that can take the server. Errors: InvalidInput."""
        nova = nova or self.nova()
        self.compute = compute_nodes.read_server_hosts(nova)
        scheduler = nova_options.SchedulerOptions(release=33, allow_resize_to_same_host=same_host)
        options = nova_request.RequestOptions(server=SERVER, scheduler=scheduler)
        services = nova_request.RequestServices(
            nova, fake_neutron.FakeNeutron, lambda: nova, lambda _: frozenset()
        )
        move = MoveRequest(Way(kind), to_host, "new" if kind == "resize" else None)
        case = cases.read(services, options, self.compute, move)
        [request] = case.requests
        named = [to_host] if to_host else []
        query = explain.ExplainedQuery(
            request.query, list(request.sources), named, nova=request, case=case
        )
        [explanation] = explain.explain(
            *(self.client, [query], ReadContext(workers=1), self.compute, case.aggregates)
        )
        self.found = explanation
        assert not explanation.open.doubts
        return set(explanation.candidates)


@pytest.fixture
def cloud(seed: int, kind: str, placement: service.InProcessPlacement) -> MovingCloud:
    return MovingCloud(placement, seed, kind)


@pytest.mark.seeds(40, long=600)
@pytest.mark.parametrize("kind", ACCEPTED)
def test_the_hosts_for_a_move_are_those_of_brute_force(cloud: MovingCloud, kind: str) -> None:
    same_host = cloud.draw.choice([True, False])
    expected = cloud.expected(kind, same_host=same_host)
    if expected is None:
        with pytest.raises(errors.InvalidInput):
            cloud.asked(kind, same_host=same_host)
        return
    assert cloud.asked(kind, same_host=same_host) == expected
    number = cloud.draw.randrange(1, 6)
    if kind != "resize":
        assert cloud.asked(kind, f"nova-h{number}") == {f"h{number}"} & expected


class CountingNova(nova_api.RecordedNova):
    """Counts the requests by path."""

    def __init__(self, recorded: Mapping[str, Any]) -> None:
        super().__init__(recorded, "a test")
        self.sent: collections.Counter[str] = collections.Counter()

    def ask(self, path: str, version: str) -> Any:
        self.sent[path.partition("?")[0]] += 1
        return super().ask(path, version)


@pytest.mark.parametrize("number", [50, 500])
def test_the_requests_for_a_named_target_do_not_grow_with_the_hosts(
    number: int, placement: service.InProcessPlacement
) -> None:
    cloud = MovingCloud(placement, 0, "migrate")
    cloud.old, cloud.state, cloud.task, cloud.zone = Flavor(4, 16), "active", None, None
    cloud.services = ["up"] * 6
    names = [f"h{n}" for n in range(number)]
    hosts = testing.Cloud("nova-{}").compute(*names, VCPU=8, MEMORY_MB=64)
    placement.reset()
    explained.seed(placement, clouds.state_of(hosts))
    for consumer, on in ((SERVER, 0), (OTHER, 1), (GONE, 1)):
        assert cloud.claims(Flavor(3, 16), on, consumer)
    recorded = dict(cloud.nova().recorded)
    for path in ("os-services", "os-hypervisors/detail", "os-server-groups"):
        recorded[f"GET /v2.1/{path}"] = hosts.nova()[f"GET /v2.1/{path}"]
    recorded["GET /v2.1/servers/detail?host=nova-h1"] = {"servers": []}
    for uuid in (OTHER, GONE):
        recorded[f"GET /v2.1/servers/detail?uuid={uuid}"] = {"servers": []}
    nova = CountingNova(recorded)
    cloud.client = explained.CountingClient(
        placement.client(microversion.MAXIMUM).transport, microversion.MAXIMUM
    )
    cloud.client.transport.local = lambda: None
    assert cloud.asked("migrate", "nova-h1", nova=nova) == set()
    consumers, _ = holders.read(
        cloud.client, cloud.found.short, ReadContext(workers=1), cloud.compute, nova
    )
    assert {holder.consumer_uuid: (holder.amounts, holder.is_leaked) for holder in consumers} == {
        OTHER: ({"VCPU": 3, "MEMORY_MB": 16}, True),
        GONE: ({"VCPU": 3, "MEMORY_MB": 16}, True),
    }
    assert cloud.client.sent == {
        # The target by nova's name, which no provider has, and by the name and UUID of its node.
        "resource_providers/name": 2,
        "resource_providers/uuid": 1,
        # Checks the query, proves changes, and reads the capacity of all hosts.
        "allocation_candidates/resources": 2,
        "traits/name": 1,
        "resource_providers/": 1,
        "resource_providers/required": 1,
        "resource_providers/resources": 4,
        # The target, and who holds its room.
        "resource_providers/inventories/": 1,
        "resource_providers/allocations/": 1,
    }
    assert nova.sent == {
        "/os-services": 1,
        "/os-hypervisors/detail": 1,
        "/os-aggregates": 1,
        "/os-server-groups": 1,
        # The server; those on the target; two consumers that are none of them.
        "/servers/detail": 4,
        # Those of the server, and all.
        "/os-migrations": 2,
    }
