# SPDX-License-Identifier: Apache-2.0
"""Each text of what an answer leaves open: whether it changes *how*, or *whether*.

A text of the second kind turns a yes into ``unknown``, exit code 4. So each has a cloud here in
which it does, and all have one healthy cloud beside which none of them stands.
"""

from __future__ import annotations

import copy
import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from osc_placement import testing
from osc_placement.testing import nova, uuid_of
from osc_placement.testing.cloud import complete
from tests.support import open_texts
from tests.support.peer import fixtures, process
from tests.support.peer.shell import OpenStack, Outcome
from tests.support.rows import nova_recording

SERVER, LOST, MOVE, OTHER = (uuid_of(name) for name in ("server", "lost", "move", "other"))

EXPLAIN, EXPLAIN_SERVER = (
    "allocation candidate explain",
    f"allocation candidate explain --server {SERVER}",
)
SHOW, AUDIT, CHECK = (
    "placement capacity show",
    "placement flavor audit",
    "placement host check full",
)
DRAIN, ROOM = "placement host drain full", "placement capacity make-room"

_SERVERS, _MIGRATIONS = "GET /v2.1/servers/detail", "GET /v2.1/os-migrations"
_FLAVORS, _AGGREGATES = "GET /v2.1/flavors/detail", "GET /v2.1/os-aggregates"
_SERVICES, _NODES = "GET /v2.1/os-services", "GET /v2.1/os-hypervisors/detail"
_GROUPS = "GET /v2.1/os-server-groups"
_VOLUMES = {"os-extended-volumes:volumes_attached": [{"id": "data"}]}

Answers = dict[str, Any]


class Cloud(NamedTuple):
    """The healthy cloud: Placement's half as a document, and nova's answers."""

    openstack: OpenStack
    document: Answers
    answers: Answers

    def server(self, **fields: Any) -> None:
        """Change fields of the server."""
        self.answers[_SERVERS]["servers"][0].update(fields)

    def specs(self, **specs: str) -> None:
        """Set extra specs of the server's flavor."""
        self.answers[_SERVERS]["servers"][0]["flavor"]["extra_specs"] = {
            name.replace("__", ":"): value for name, value in specs.items()
        }

    def flavor(self, **specs: str) -> None:
        """Add a flavor ``odd`` with extra specs."""
        self.answers[_FLAVORS]["flavors"].append(_flavor("odd", **specs))

    def image(self, **properties: str) -> None:
        """Add an image ``odd`` with properties."""
        image = {"id": "odd", "name": "odd", "disk_format": "raw", **properties}
        self.answers["GET /v2/images/odd"] = image

    def aggregate(self, **metadata: str) -> None:
        """Put both hosts into one more host aggregate."""
        hosts = ["nova-full", "nova-target"]
        more = nova.aggregate(2, "more", uuid_of("more"), hosts, **metadata)
        self.answers[_AGGREGATES]["aggregates"].append(more)

    def conf(self, text: str) -> None:
        """Write nova.conf."""
        pathlib.Path("nova.conf").write_text(text)

    def enable(self, name: str) -> None:
        """A nova.conf with this filter."""
        self.conf(f"[filter_scheduler]\nenabled_filters = ComputeFilter,{name}\n")

    def version(self, maximum: str) -> None:
        """A nova with this maximum of its API."""
        self.answers["GET /v2.1/"] = {"version": {"version": maximum}}

    def traits(self, host: str, *names: str) -> None:
        """Set the traits of a host."""
        self.document["providers"][uuid_of(host)]["traits"] = names

    def allocate(self, host: str, consumer: str, vcpus: int = 3) -> None:
        """A consumer has its only allocations on a host."""
        allocations = {uuid_of(host): {"VCPU": vcpus}}
        self.document["consumers"][consumer] = {"allocations": allocations, "type": "unknown"}

    def run(self, command: str, *options: str) -> Outcome:
        """The outcome of a command."""
        self.openstack.target.load(complete(self.document))
        return self.openstack.run(
            command, *options, *(nova_recording(self.answers) if self.answers else ())
        )

    def port(self, **binding: str) -> None:
        """A port of the server."""
        fields = {f"binding:{name}": value for name, value in binding.items()}
        port = {"id": LOST, "name": "nic", "device_id": SERVER, "revision_number": 1, **fields}
        self.answers["GET /v2.0/ports"]["ports"].append(port)

    def move(self, status: str, task: str | None) -> None:
        """The server moves live."""
        self.server(**{"OS-EXT-STS:task_state": task})
        ends = {"source_compute": "nova-full", "source_node": "full"}
        ends |= {"dest_compute": "nova-target", "dest_node": "target"}
        moving = nova.migration(MOVE, SERVER, status=status, **ends)
        self.answers[_MIGRATIONS] = {"migrations": [moving]}


def _flavor(name: str, vcpus: int = 2, **specs: str) -> dict[str, Any]:
    written = {key.replace("__", ":"): value for key, value in specs.items()}
    return nova.flavor(name, vcpus=vcpus, extra_specs=written)


@pytest.fixture
def cloud(openstack: OpenStack) -> Cloud:
    """Two hosts of one zone, and a server at rest with its allocations on ``full``."""
    made = testing.Cloud("nova-{}").compute("full", "target", VCPU=8, aggregates=["az1"])
    made.aggregate("az1", ["full", "target"], availability_zone="az1")
    made.flavor("small", vcpus=2).flavor("whole", vcpus=8)
    made.guest("server", "full", 3, pinned_availability_zone="az1")
    return Cloud(openstack, made.document(), made.nova() | {"GET /v2.0/ports": {"ports": []}})


class Case(NamedTuple):
    """A text that turns the answer: how the cloud becomes one in which it stands, and where.

    ``commands`` are those that say it; ``alone`` has the options of the same question about the
    healthy cloud, where they differ. ``words`` are in the line.
    """

    change: Callable[[Cloud], object]
    commands: tuple[str, ...]
    words: str
    options: str = ""


def _without(path: str) -> Callable[[Cloud], object]:
    return lambda cloud: cloud.answers.update({path: None})


def _of_flavor(*commands: str) -> tuple[str, ...]:
    return tuple(f"{command} --flavor odd" for command in commands if command != AUDIT) + tuple(
        f"{command} odd" for command in commands if command == AUDIT
    )


def _lost_host(cloud: Cloud) -> None:
    cloud.answers[_NODES]["hypervisors"] = cloud.answers[_NODES]["hypervisors"][1:]


def _with_third_host(cloud: Cloud) -> None:
    """One more host, and a server with a PCI device on a host that is not drained."""
    third = testing.Cloud("nova-{}").compute("third", VCPU=8, aggregates=["az1"])
    cloud.document["providers"].update(third.document()["providers"])
    for path, name in ((_SERVICES, "services"), (_NODES, "hypervisors")):
        cloud.answers[path][name] += third.nova()[path][name]
    cloud.answers[_AGGREGATES]["aggregates"][0]["hosts"].append("nova-third")
    _with_device(cloud)


def _with_device(cloud: Cloud) -> None:
    """One more server, on ``target`` and with a PCI device."""
    cloud.answers[_SERVERS]["servers"].append(
        _server(
            OTHER,
            "target",
            pinned_availability_zone="az1",
            extra_specs={name.replace("__", ":"): text for name, text in _PCI.items()},
        )
    )
    cloud.allocate("target", OTHER)


def _server(uuid: str, host: str, **fields: Any) -> dict[str, Any]:
    return nova.server(uuid, host=f"nova-{host}", node=host, vcpus=3, **fields)


_SMALL = (f"{EXPLAIN} --flavor small", f"{SHOW} --flavor small", f"{AUDIT} small")
_NOVA_CONF = "--nova-conf nova.conf"
_PCI = {"pci_passthrough__alias": "nic:1"}
_ZONE_2 = nova.aggregate(2, "az2", uuid_of("az2"), ["nova-target"], availability_zone="az2")
_NUMA = {"hw__numa_nodes": "1"}
_TPM_OF_33 = (
    *("COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_TIS"),
    *("COMPUTE_SECURITY_TPM_SECRET_SECURITY_HOST",),
    *("COMPUTE_SECURITY_TPM_SECRET_SECURITY_DEPLOYMENT",),
)

# fmt: off
#: ``{template: its clouds}``: a text that can turn a yes into a no.
WHETHER: Mapping[str, tuple[Case, ...]] = {
    "compute services: nova was not read, so a host may be down, disabled or missing in nova": (
        Case(lambda cloud: cloud.answers.clear(), (CHECK,), "nova was not read"),
    ),
    "traits, availability zones, host aggregates and server groups: they are in nova (select a"
    " snapshot that was saved --with-nova, or give --os-nova-recording)": (
        Case(lambda cloud: cloud.answers.clear(), (CHECK,), "traits, availability zones"),
    ),
    "servers without allocations: they are in nova": (
        Case(lambda cloud: cloud.answers.clear(), (CHECK,), "servers without allocations"),
    ),
    "compute services: {}": (
        Case(_without(_SERVICES), (*_SMALL, CHECK), "compute services: "),
        Case(_without(_NODES), (*_SMALL, CHECK), "compute services: "),
    ),
    "{}: nova does not show {}": (
        Case(lambda cloud: cloud.flavor(**_NUMA), _of_flavor(EXPLAIN, SHOW, AUDIT),
             "free CPUs and memory pages of the host's NUMA nodes"),
        Case(lambda cloud: cloud.specs(**_NUMA), (CHECK, DRAIN), "hw:numa_nodes: nova does not"),
        Case(
            lambda cloud: cloud.flavor(**_PCI), _of_flavor(EXPLAIN), "free PCI devices of the host"
        ),
        Case(lambda cloud: cloud.specs(**_PCI), (CHECK, DRAIN), "free PCI devices of the host"),
        Case(lambda cloud: cloud.flavor(capabilities__cpu_info="x"),
             _of_flavor(EXPLAIN, SHOW, AUDIT),
             "capabilities:cpu_info: nova does not show the capabilities"),
        Case(lambda cloud: cloud.image(hw_architecture="aarch64"),
             (f"{EXPLAIN} --flavor small --image odd",),
             "hw_architecture: nova does not show the architectures"),
        Case(lambda cloud: cloud.aggregate(max_io_ops_per_host="2"), _SMALL[:1],
             "max_io_ops_per_host"),
        Case(lambda cloud: cloud.answers.update({_AGGREGATES: {"aggregates": []},
             "GET /v2.1/os-availability-zone": {"availabilityZoneInfo": [{"zoneName": "plain",
             "hosts": {}}]}}), (f"{EXPLAIN} --flavor small --availability-zone plain",),
             "plain: nova does not show the zone"),
        Case(lambda c: c.enable("IoOpsFilter"), _SMALL[:1], "IoOpsFilter", _NOVA_CONF),
    ),
    "{}: whether their alias is live_migratable stands in nova.conf (--nova-conf)": (
        Case(lambda cloud: cloud.specs(**_PCI), (CHECK, DRAIN), "whether their alias is live"),
    ),
    "the project is not known, and the host accepts only some": (
        Case(lambda cloud: cloud.aggregate(filter_tenant_id="somebody"), _SMALL[:1],
             "the project is not known"),
    ),
    "the name of the flavor is not known, and the host accepts only some": (
        Case(lambda cloud: (cloud.aggregate(instance_type="m1"),
             cloud.answers[_SERVERS]["servers"][0]["flavor"].update(original_name=None)),
             (EXPLAIN_SERVER,), "the name of the flavor"),
    ),
    "the possible releases of nova send different requests": (
        Case(lambda cloud: (cloud.version("2.96"), cloud.specs(hw__tpm_version="2.0",
             hw__tpm_model="tpm-crb"), cloud.traits("target", "COMPUTE_SECURITY_TPM_2_0")),
             (CHECK, DRAIN), "different requests"),
    ),
    "the properties of its volume's image: nova does not show them": (
        Case(lambda cloud: [node.pop("cpu_info") for node in cloud.answers[_NODES]["hypervisors"]],
             (CHECK, DRAIN, EXPLAIN_SERVER), "the properties of its volume's image"),
        # A host with the trait may have a server with a virtual TPM.
        Case(lambda cloud: (cloud.version("2.103"), cloud.traits("full",
             "COMPUTE_SECURITY_TPM_2_0")), (CHECK, DRAIN, f"{EXPLAIN_SERVER} --for live-migrate"),
             "the properties of its volume's image"),
    ),
    "whether its guest runs: nova does not show its power state": (
        Case(lambda cloud: cloud.server(**{"OS-EXT-STS:power_state": None}),
             (CHECK, DRAIN, f"{EXPLAIN_SERVER} --for live-migrate"), "whether its guest runs"),
    ),
    "whether a share is attached: {}": (
        Case(lambda cloud: (cloud.version("2.100"), cloud.traits("full",
             "COMPUTE_MEM_BACKING_FILE")), (CHECK, DRAIN, f"{EXPLAIN_SERVER} --for migrate"),
             "whether a share is attached"),
    ),
    "whether every nova-compute can move the vDPA port {} live: nova does not show the versions of"
    " its services": (
        Case(lambda cloud: (cloud.version("2.95"), cloud.port(vnic_type="vdpa")),
             (CHECK, DRAIN, f"{EXPLAIN_SERVER} --for live-migrate"), "the vDPA port"),
    ),
    "whether every nova-compute is of nova 33 or later, as a virtual TPM needs: nova does not show"
    " it": (
        Case(lambda cloud: (cloud.version("2.103"), cloud.specs(hw__tpm_version="2.0",
             hw__tpm_secret_security="host"), *(cloud.traits(name,
             *_TPM_OF_33) for name in ("full", "target"))),
             (CHECK, DRAIN, f"{EXPLAIN_SERVER} --for live-migrate"), "of nova 33 or later"),
    ),
    "whether nova 33 changes hw:tpm_secret_security": (
        Case(lambda cloud: (cloud.version("2.103"), cloud.specs(hw__tpm_version="2.0",
             hw__tpm_secret_security="host"), cloud.flavor(hw__tpm_version="2.0",
             hw__tpm_secret_security="deployment"), cloud.traits("target", *_TPM_OF_33)),
             (f"{EXPLAIN_SERVER} --for resize --to-flavor odd",), "whether nova 33 changes"),
    ),
    "whether its root disk is a volume: {}": (
        Case(lambda cloud: (cloud.server(image={"id": "odd", "properties": {}}, **_VOLUMES),
             cloud.answers[_SERVERS]["servers"][0]["flavor"].update(disk=5)),
             (f"{EXPLAIN_SERVER} --for resize --to-flavor small",), "whether its root disk is"),
    ),
    "whether an earlier move of the server is over: {}": (
        Case(_without(_MIGRATIONS), (f"{EXPLAIN_SERVER} --for migrate",),
             "whether an earlier move of the server is over"),
    ),
    "the server: {}": (
        Case(lambda cloud: cloud.move("running", None), (f"{EXPLAIN_SERVER} --for migrate",),
             "the server: its "),
    ),
    "nova does not show the number of servers on the host": (
        Case(lambda c: c.enable("NumInstancesFilter"), _SMALL[:1], "number of servers", _NOVA_CONF),
    ),
    "nova does not show the metrics of the hosts": (
        Case(lambda c: c.enable("MetricsFilter"), _SMALL[:1], "MetricsFilter", _NOVA_CONF),
    ),
    "nova does not show the scheduler hints of a server": (
        Case(lambda c: c.enable("SameHostFilter"), (EXPLAIN_SERVER,), "hints", _NOVA_CONF),
    ),
    "this filter is not known": (
        Case(lambda c: c.enable("MyOwnFilter"), _SMALL[:1], "MyOwnFilter", _NOVA_CONF),
    ),
    "the compute nodes of the hosts were not read": (
        Case(lambda cloud: (cloud.enable("AggregateImagePropertiesIsolation"),
             _without(_NODES)(cloud)), _SMALL[:1], "the compute nodes of the hosts", _NOVA_CONF),
    ),
    "{}: nova.conf says whether it is enabled": (
        Case(lambda cloud: cloud.flavor(ssd="true"), _of_flavor(EXPLAIN), "nova.conf says"),
    ),
    "{} differ, and nova does not show which one it is": (
        Case(lambda cloud: (cloud.answers.update({"GET /v2.1/": {"version": {"version": "2.96"}}}),
             cloud.aggregate(filter_tenant_id2="somebody")),
             (f"{EXPLAIN} --flavor small --project {LOST}",), "nova 29 and nova 30 differ"),
    ),
    "nova {} refuses it: {}": (
        Case(lambda cloud: (cloud.answers.update({"GET /v2.1/": {"version": {"version": "2.96"}}}),
             cloud.image(hw_firmware_stateless="true")),
             (f"{EXPLAIN} --flavor small --image odd", f"{SHOW} --flavor small --image odd"),
             "nova 30 refuses it"),
    ),
    "server groups: {}": (
        Case(_without(_GROUPS), (CHECK, f"{SHOW} --flavor small --keep 1"), "server groups: "),
    ),
    "the aggregates of routed networks are not in the query: they need the segments of the"
    " server's networks": (
        Case(
            lambda cloud: (
                cloud.conf("[scheduler]\nquery_placement_for_routed_network_aggregates = true\n"),
                cloud.answers["GET /v2.0/ports"]["ports"].append(
                    {"id": LOST, "name": "nic", "device_id": SERVER, "revision_number": 1}
                ),
            ),
            (CHECK, EXPLAIN_SERVER),
            "routed networks",
            _NOVA_CONF,
        ),
    ),
    "the disk format and {}": (
        Case(lambda cloud: cloud.server(image={"id": "gone", "properties": {}}),
             (CHECK, EXPLAIN_SERVER, f"{EXPLAIN_SERVER} --for migrate", DRAIN),
             "the disk format and the properties of image gone", "--filter image-type"),
    ),
    "the devices of the PCI alias {} are not in the query: [pci]{}": (
        Case(lambda cloud: (cloud.specs(**_PCI), cloud.conf("[pci]\n")), (CHECK, EXPLAIN_SERVER),
             "[pci]alias has no nic", _NOVA_CONF),
    ),
    "the devices of the PCI alias {} are not in the query: only nova.conf (--nova-conf) says what"
    " an alias requests": (
        Case(lambda cloud: cloud.flavor(**_PCI), _of_flavor(EXPLAIN, SHOW, AUDIT),
             "the devices of the PCI alias nic"),
        Case(lambda cloud: cloud.specs(**_PCI), (CHECK,), "the devices of the PCI alias nic"),
    ),
    "the devices of the PCI alias {} are not in the query: nova requests them from Placement only"
    " with [filter_scheduler]pci_in_placement": (
        Case(
            lambda cloud: (
                cloud.flavor(**_PCI),
                cloud.conf(
                    '[pci]\nalias = {"name": "nic", "vendor_id": "8086", "product_id": "154d"}\n'
                ),
            ),
            _of_flavor(EXPLAIN, SHOW, AUDIT),
            "only with",
            _NOVA_CONF,
        ),
    ),
    "the servers of {}: {}": (Case(_lost_host, (CHECK,), "nova lists no compute node"),),
    "the servers on these hosts and their moves: {}": (
        Case(_without(_MIGRATIONS), (CHECK,), "the servers on these hosts"),
        Case(_without(_SERVERS), (CHECK, f"{SHOW} --flavor small --keep 1"), "the servers on"),
    ),
    "the zone in which a server was requested: nova shows it from compute API 2.96 on": (
        Case(
            # The target is in another zone than the server's host.
            lambda cloud: (
                cloud.answers[_SERVERS]["servers"][0].pop("pinned_availability_zone"),
                cloud.answers[_AGGREGATES]["aggregates"][0].update(hosts=["nova-full"]),
                cloud.answers[_AGGREGATES]["aggregates"].append(_ZONE_2),
            ),
            (CHECK, f"{EXPLAIN_SERVER} --for migrate"),
            "the zone in which",
        ),
    ),
    "traits, zones and aggregates of server {}: {}": (
        Case(lambda cloud: cloud.answers[_SERVERS]["servers"].append({"id": SERVER,
             "status": "UNKNOWN",
             "tenant_id": cloud.answers[_SERVERS]["servers"].pop(0)["tenant_id"]}), (CHECK,),
             "its cell is down"),
    ),
    "traits, zones and aggregates of {}, which nova does not list: 'openstack placement allocation"
    " audit' says what they are": (
        Case(lambda cloud: cloud.allocate("full", LOST, 1), (CHECK,), "which nova does not list"),
    ),
    "whether nova moves {}: 'openstack placement host check' says why not": (
        Case(lambda cloud: cloud.move("running", "migrating"),
             (f"{SHOW} --flavor small --keep 1",), "whether nova moves"),
    ),
    "without allocations": (
        Case(lambda cloud: cloud.answers[_SERVERS]["servers"].append(_server(LOST, "full")),
             (CHECK, f"{SHOW} --flavor small --keep 1"), "1 server without allocations: "),
    ),
    "with allocations on other hosts only": (
        Case(lambda cloud: (cloud.answers[_SERVERS]["servers"].append(_server(LOST, "full")),
             cloud.allocate("target", LOST)), (CHECK,),
             "1 server with allocations on other hosts only: "),
    ),
    "{}: nova has it on {}, and lists no compute node of this host": (
        Case(lambda cloud: cloud.server(**{"OS-EXT-SRV-ATTR:host": "nova-other"}), (CHECK,),
             "lists no compute node of this host"),
    ),
    "look for the guest on {} (virsh list --all)": (
        Case(lambda cloud: (cloud.move("error", None),
             cloud.answers[_MIGRATIONS]["migrations"][0].update(migration_type="migration"),
             cloud.server(**{"OS-EXT-STS:vm_state": "error", "OS-EXT-SRV-ATTR:host": "nova-target",
             "OS-EXT-SRV-ATTR:hypervisor_hostname": "target"}), cloud.allocate("target", SERVER)),
             (CHECK, "placement host check target"),
             "look for the guest on nova-full and nova-target (virsh list --all)"),
    ),
    "{}; if nova says this still after ten minutes: {}": (
        Case(lambda cloud: (cloud.move("completed", "migrating"), cloud.allocate("full", MOVE),
             cloud.allocate("target", SERVER)), (CHECK, "placement host check target"),
             "if nova says this still after ten minutes: correct the server's host"),
    ),
    "whether any {} may fail after the plan": (
        Case(_with_third_host, (f"{DRAIN} --keep 1",), "whether any 1 host may fail after"),
    ),
    "the rules of other releases than {}": (
        Case(lambda cloud: (cloud.answers.update({"GET /v2.1/": {"version": {"version": "2.96"}}}),
             cloud.flavor(hw__tpm_version="2.0", hw__tpm_model="tpm-crb"), cloud.traits("target",
             "COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_CRB")), (f"{ROOM} --flavor odd",),
             "the rules of other releases than nova 30"),
    ),
    "placement allocation audit": (
        Case(lambda cloud: (cloud.move("accepted", None), cloud.allocate("full", MOVE)),
             (CHECK, "placement host check target"), "placement allocation audit --host"),
    ),
}
# fmt: on

#: ``{template: its test}``: a text that can turn a yes, of a fault that a file cannot have.
OF_A_SERVICE = {
    "how many candidates Placement returns to nova: {}": (
        "unit/workflows/explain/test_flavor_audit.py",
        "test_a_flavor_whose_query_is_too_much_for_a_service_has_the_hosts_of_the_wide_read",
    ),
    "server group {}: it was not read when the steps were chosen": (
        "functional/moving/test_balance.py",
        "test_server_groups_that_were_not_read_at_first_are_a_doubt_about_the_steps",
    ),
}

#: A text that changes only how.
HOW = {
    "hosts_if_empty is {} to {}: the max_unit of full hosts was not read; a snapshot has it",
    "local disks, which only a migration moves: {}",
    "{}: not on {} any more, but allocated there",
    "not evacuated if its host fails, because {}",
    "no place if its host fails, because {}",
    "{}: not live, because {}; cold: {}",
    "not kept, because it is so without the plan: {} may not fail",
}

#: Words of the other texts.
PARTS = {
    "placement allocation {}",
    "server {}",
    "server {} ({})",
    "server{} {}",
    "the targets of {}: {}",
    "server {}: {}",
    "the hosts with the trait {}: they were not read",
    "the hosts with the trait {}: {}",
    "whether a share is attached: nova was not asked",
    "{} of {}",
    "if it is so for more than a minute: {}",
    "then run this command again",
    "run this command as a user with this right",
    "{}; if it is on {}, a minute after the last change: {}",
}


def lines_of(cloud: Cloud, command: str, options: str = "") -> tuple[int, list[str]]:
    """The exit code, and the lines ``Not checked`` of a command."""
    ended = cloud.run(command, *options.split())
    lines = ended.messages.splitlines()
    return ended.code, [line for line in lines if line.startswith("Not checked")]


def test_every_text_has_its_kind() -> None:
    assert open_texts.collected() == WHETHER.keys() | OF_A_SERVICE.keys() | HOW | PARTS
    tests = process.ROOT / "tests"
    assert all(f"def {name}(" in (tests / path).read_text() for path, name in OF_A_SERVICE.values())


CASES = [
    pytest.param(text, case, id=f"{text[:40]}-{number}")
    for text, cases in WHETHER.items()
    for number, case in enumerate(cases)
]


@fixtures.ON_ONE_TARGET
@pytest.mark.parametrize(("text", "case"), CASES)
def test_a_text_stands_and_turns_the_answer_where_it_concerns_the_question(
    text: str, case: Case, cloud: Cloud
) -> None:
    healthy = copy.deepcopy(cloud.answers)
    case.change(cloud)
    assert case.commands
    for command in case.commands:
        code, lines = lines_of(cloud, command, case.options)
        assert any(case.words in line for line in lines), (command, lines)
        assert code == 4, command
    assert healthy != cloud.answers or case.options or "which nova" in text


@fixtures.ON_ONE_TARGET
def test_make_room_asks_only_about_servers_that_move(cloud: Cloud) -> None:
    """A device of a server that stays is no doubt; one of the only server that can move is."""
    _with_device(cloud)
    cloud.answers[_FLAVORS]["flavors"].append(_flavor("six", 6))
    room = f"{ROOM} --flavor six"
    assert lines_of(cloud, room) == (0, [])
    # Nova moves a stopped server only cold.
    cloud.server(**{"OS-EXT-STS:vm_state": "stopped"})
    code, lines = lines_of(cloud, room)
    assert code == 4
    assert any(f"server {OTHER}: " in line and "PCI devices" in line for line in lines)


OF_SERVERS = [case for case in CASES if CHECK in case.values[1].commands]


@fixtures.ON_ONE_TARGET
@pytest.mark.parametrize(("text", "case"), OF_SERVERS)
def test_no_plan_of_moves_is_a_yes_where_host_check_has_none(
    text: str, case: Case, cloud: Cloud
) -> None:
    """The same texts are about the steps of a drain, or the server has no step."""
    case.change(cloud)
    ended = cloud.run(DRAIN, *case.options.split(), "-f", "json")
    if ended.code == 1:
        assert "nova" in ended.messages
    else:
        plan = json.loads(ended.stdout)
        assert ended.code == (3 if plan["blocked"] else 4)
        assert plan["blocked"] or any(case.words in line for line in plan["not_checked"])


@fixtures.ON_ONE_TARGET
@pytest.mark.parametrize(
    "command",
    [
        *_SMALL, CHECK, EXPLAIN_SERVER, "placement host check target", DRAIN,
        f"{ROOM} --flavor small", f"{ROOM} --flavor whole",
        f"{SHOW} --flavor small --keep 1", f"{EXPLAIN} --flavor small --availability-zone az1",
    ],
)  # fmt: skip
def test_a_healthy_cloud_at_rest_has_a_plain_yes(command: str, cloud: Cloud) -> None:
    assert lines_of(cloud, command) == (0, [])
    cloud.enable(",".join(filters_of_nova()))
    assert lines_of(cloud, command, _NOVA_CONF) == (0, [])


def filters_of_nova() -> list[str]:
    """The filters that nova enables by default."""
    from osc_placement.scheduling import nova_options

    return sorted(nova_options.DEFAULT_FILTERS)
