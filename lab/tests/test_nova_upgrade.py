# SPDX-License-Identifier: Apache-2.0
"""``placement upgrade check`` beside an upgrade of real nova from 31 over 33 to 34.

``OSC_PLACEMENT_MOVES`` names a folder with *moves.py*, as for test_moves. Its MariaDB, RabbitMQ
and keystone run a nova of 31, whose services are upgraded one by one (lab/upgrade_cloud.py).
Each prediction is compared with its case and its neighbour; the page "Before an upgrade" says which
are not. Each line of the output is a check, what it said, and what nova did. The services need
about 3 GiB, and ten minutes of two cores; the first run installs every release, too.
"""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from lab import upgrade_cloud
from osc_placement.scheduling import releases
from tests.support.peer import shell

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(7200)]

FOLDER = "OSC_PLACEMENT_MOVES"
SERVICES = upgrade_cloud.SERVICES
TPM = {"supports_vtpm": True, "tpm_versions": ["1.2", "2.0"], "tpm_models": ["tpm-tis", "tpm-crb"]}
#: Nova 34 has a method for the number of guests of each model, and the others a property.
SLOTS = "_get_mem_encryption_slots_amd_sev"
SEV = {
    "supports_amd_sev": True,
    "supports_amd_sev_es": True,
    "max_sev_es_guests": 2,
    SLOTS: 4,
    f"{SLOTS}_es": 2,
}
#: What is on in the kernel of a host.
SNP_OFF = {"kernel": {"sev": True, "sev_es": True}}
SNP_ON = {"kernel": {**SNP_OFF["kernel"], "sev_snp": True}}
SWTPM = "[libvirt]\nswtpm_enabled = true\nswtpm_user = root\nswtpm_group = root\n"
ONE_TIME = (
    '[pci]\ndevice_spec = {"vendor_id": "10de", "product_id": "1db4", "one_time_use": "true"}\n'
)
REPORTED = ONE_TIME + "report_in_placement = true\n"
#: Virtual TPM, also with reported one-time-use devices; others that are not; SEV, later with SNP,
#: and without.
HOSTS = {
    "tpm": (TPM, SWTPM),
    "reported": (TPM, SWTPM + REPORTED),
    "unreported": ({}, ONE_TIME),
    "snp": ({**SEV, "max_sev_guests": 4}, ""),
    "sev": ({**SEV, "max_sev_guests": 2}, ""),
}
UEFI = {"hw_firmware_type": "uefi", "hw_machine_type": "q35"}
IMAGES = {
    "tiny": {},
    "uefi": UEFI,
    "with-tpm": {"hw_tpm_version": "2.0", "hw_tpm_model": "tpm-crb"},
}
FLAVORS: Mapping[str, tuple[int, Mapping[str, str]]] = {
    "small": (1, {}),
    "whole": (16, {}),
    "tpm": (1, {"hw:tpm_version": "2.0"}),
    "sev": (1, {"hw:mem_encryption": "true"}),
}
SECRET = "COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER"
OWNER = "OWNER_NOVA"
MEMORY = "MEM_ENCRYPTION_CONTEXT"


class Story:
    """The cloud, and what was compared."""

    def __init__(self, cloud: upgrade_cloud.UpgradeCloud) -> None:
        self.cloud, self.api = cloud, cloud.api
        self.count = 0
        self.row = ""

    def checked(self, *arguments: str) -> dict[str, tuple[str, str]]:
        """``{code: (result, details)}`` of the command."""
        ended = shell.run(["placement", "upgrade", "check", *arguments, "-f", "json"])
        assert ended.stdout, ended.stderr
        rows = json.loads(ended.stdout)
        return {
            row["code"]: (row["result"], " ".join(" ".join(row["details"]).split())) for row in rows
        }

    def says(self, code: str, result: str, *texts: str, arguments: Sequence[str] = ()) -> None:
        """The command's row of a check."""
        said, details = self.checked(*arguments)[code]
        assert said == result, f"{code}: {said}, {details}"
        for text in texts:
            assert text in details, f"{code}: {details}"
        self.row = f"{code}: {said} ({details})"

    def did(self, text: str) -> None:
        """Print what nova did about the last row."""
        self.count += 1
        print(f"{self.row} | nova: {text}", flush=True)

    def boot(self, name: str, flavor: str = "small", image: str = "tiny", **more: str) -> str:
        """Request a server; its status at the end, or why there is none."""
        body = {
            "name": name,
            "flavorRef": flavor,
            "imageRef": self.image(image),
            "networks": "none",
            **more,
        }
        try:
            server = self.api.nova("POST", "/servers", {"server": body})["server"]["id"]
        except self.cloud.moves.Refused as error:
            return str(error)
        return self.settled(server)

    def settled(self, server: str) -> str:
        """The status of a server at rest, or its fault."""

        def rests() -> Any:
            shown = self.api.nova("GET", f"/servers/{server}")["server"]
            is_over = shown["status"] not in ("BUILD", "ERROR") or "fault" in shown
            return shown if is_over and not shown["OS-EXT-STS:task_state"] else None

        shown = self.cloud.moves.wait(f"{server} to settle", rests, upgrade_cloud.PATIENCE)
        return str(shown["fault"]["message"] if shown["status"] == "ERROR" else shown["status"])

    def new_flavor(self, name: str, cpus: int, specs: Mapping[str, str]) -> None:
        """A flavor whose ID is its name."""
        facts = {"name": name, "id": name, "vcpus": cpus, "ram": 512, "disk": 0}
        self.api.nova("POST", "/flavors", {"flavor": facts})
        if specs:
            tail = f"/flavors/{name}/os-extra_specs"
            self.api.nova("POST", tail, {"extra_specs": dict(specs)})

    def status(self, server: str, *wanted: str) -> None:
        """Wait for a server to have one of these statuses, at rest."""
        self.cloud.moves.settle(self.api, server, wanted, upgrade_cloud.PATIENCE)

    def migrate(self, name: str) -> str:
        """The new host of a server that moves, or why it does not."""
        server = self.api.server(name)["id"]
        self.api.act(server, {"migrate": None})
        self.status(server, "VERIFY_RESIZE", "ACTIVE")
        if self.api.server(name)["status"] == "ACTIVE":
            actions = f"/servers/{server}/os-instance-actions"
            newest = self.api.nova("GET", actions)["instanceActions"][0]["request_id"]
            return json.dumps(self.api.nova("GET", f"{actions}/{newest}"))
        self.api.act(server, {"confirmResize": None})
        self.status(server, "ACTIVE")
        return str(self.api.server(name)["OS-EXT-SRV-ATTR:host"])

    def logged(self, who: str, text: str) -> None:
        """Wait for a text in the log of a service."""
        log = self.cloud.log
        self.cloud.moves.wait(f"{who}: {text}", lambda: text in log(who), upgrade_cloud.PATIENCE)

    def wait(self, what: str, check: Callable[[], Any]) -> None:
        """Wait for a check to be true."""
        self.cloud.moves.wait(what, check, upgrade_cloud.PATIENCE, every=1)

    def offered(self, name: str) -> int:
        """The encrypted guests that a provider offers."""
        tail = f"/resource_providers/{self.provider(name)}/inventories"
        inventories = self.placement("GET", tail)["inventories"]
        return int(inventories.get(MEMORY, {"total": 0})["total"])

    def empty(self, host: str) -> None:
        """Delete the servers of a host."""
        for server in self.api.servers():
            if server["OS-EXT-SRV-ATTR:host"] == host:
                self.api.nova("DELETE", f"/servers/{server['id']}")
        self.wait(
            "the servers to go",
            lambda: not [s for s in self.api.servers() if s["OS-EXT-SRV-ATTR:host"] == host],
        )

    def delete_service(self, host: str) -> None:
        """Delete the servers of a nova-compute that does not run, and its service."""
        self.empty(host)
        (service,) = (item for item in self.api.services() if item["host"] == host)
        self.api.nova("DELETE", f"/os-services/{service['id']}")

    def new_traits(self, name: str) -> set[str]:
        """The traits of a provider that nova-computes of 31 do not write."""
        return {item for item in self.traits(name) if releases.WRITTEN_SINCE.get(item, 0) > 31}

    def arrive(self, trait: str, *providers: str) -> None:
        """Wait for providers to have a trait, which their nova-compute writes after its start."""
        self.wait(
            f"{trait} of {', '.join(providers)}",
            lambda: all(trait in self.traits(name) for name in providers),
        )

    def image(self, name: str) -> str:
        """The ID of an image."""
        return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))

    def provider(self, name: str) -> str:
        """The UUID of a provider; an empty string without one."""
        listed = self.placement("GET", f"/resource_providers?name={name}")["resource_providers"]
        return str(listed[0]["uuid"]) if listed else ""

    def placement(self, method: str, tail: str, body: Any = None, version: str = "1.36") -> Any:
        return self.api(method, "placement", tail, body, version)

    def used(self, name: str) -> int:
        """The encrypted guests that a provider has."""
        usages = self.placement("GET", f"/resource_providers/{self.provider(name)}/usages")
        return int(usages["usages"].get(MEMORY, 0))

    def traits(self, name: str) -> set[str]:
        """The traits of a provider."""
        return set(
            self.placement("GET", f"/resource_providers/{self.provider(name)}/traits")["traits"]
        )

    def asked_for(self, flavor: str) -> str:
        """The queries for candidates that a boot sends."""
        log = pathlib.Path(self.cloud.path("log", "placement.access.log"))
        before = len(log.read_text())
        self.boot(f"asks-{flavor}-{time.time()}", flavor)
        return log.read_text()[before:]

    def conf(self, host: str) -> tuple[str, str]:
        """``--nova-conf`` of a host: that of nova with its own lines."""
        own = pathlib.Path(self.cloud.path("hosts", host, "nova.conf")).read_text()
        path = pathlib.Path(self.cloud.path("hosts", host, "whole.conf"))
        path.write_text(pathlib.Path(self.cloud.path("etc/nova/nova.conf")).read_text() + own)
        return "--nova-conf", str(path)

    def role(self, *, is_given: bool) -> None:
        """Give or take the role service of nova's user in Placement's login."""
        keystone = self.cloud.moves.cloud.Rest()
        (user,) = keystone("GET", "/users?name=placement")["users"]
        (project,) = keystone("GET", "/projects?name=service")["projects"]
        (role,) = keystone("GET", "/roles?name=service")["roles"]
        keystone(
            "PUT" if is_given else "DELETE",
            f"/projects/{project['id']}/users/{user['id']}/roles/{role['id']}",
        )


@pytest.fixture(scope="module")
def started() -> Iterator[upgrade_cloud.UpgradeCloud]:
    folder = os.environ.get(FOLDER)
    assert folder, f"{FOLDER} must name the folder of moves.py"
    sys.path.insert(0, folder)
    try:
        moves = importlib.import_module("moves")
        moves.down(True)
        cloud = upgrade_cloud.UpgradeCloud(moves, 31)
        cloud.up(HOSTS)
        yield cloud
        moves.down()
    finally:
        sys.path.remove(folder)


@pytest.fixture
def story(
    started: upgrade_cloud.UpgradeCloud, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> Story:
    for line in pathlib.Path(started.path("openrc")).read_text().splitlines():
        for pair in line.removeprefix("export ").split():
            name, _, value = pair.partition("=")
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return Story(started)


def seed(story: Story) -> None:
    """Images, flavors, zones and servers of nova 31."""
    moves, api = story.cloud.moves, story.api
    images = {story.image(name): {"id": story.image(name), "name": name, **properties}
              for name, properties in IMAGES.items()}  # fmt: skip
    moves.write("neutron.json", json.dumps({"ports": {}, "images": images}))
    for name, (cpus, specs) in FLAVORS.items():
        story.new_flavor(name, cpus, specs)
    for zone, host in (("good", "tpm"), ("bad", "reported")):
        made = api.nova("POST", "/os-aggregates", {"aggregate": {
            "name": zone, "availability_zone": zone}})["aggregate"]  # fmt: skip
        api.nova("POST", f"/os-aggregates/{made['id']}/action", {"add_host": {"host": host}})
    # Nova 31 does not know this extra spec, and accepts it below API 2.86.
    story.new_flavor("unknown-security", 1, {"hw:tpm_version": "2.0"})
    tail, specs = "/flavors/unknown-security/os-extra_specs", {"hw:tpm_secret_security": "all"}
    api.nova("POST", tail, {"extra_specs": specs}, version="2.60")
    for name, flavor, image, host in (
        ("plain", "small", "tiny", "tpm"),
        ("sealed", "tpm", "tiny", "tpm"),
        ("sev-1", "sev", "uefi", "snp"),
        ("sev-2", "sev", "uefi", "sev"),
        ("sev-3", "sev", "uefi", "sev"),
        ("lost", "whole", "tiny", "unreported"),
    ):
        assert story.boot(name, flavor, image, host=host) == "ACTIVE", name


def before_the_upgrade(story: Story) -> None:
    """Nova 31: what the new services refuse, and what nova reads in Placement today."""
    cloud, to = story.cloud, ("--to", "2026.1")
    story.says("step", "failure", "upgrade to nova 33 (2026.1) first", arguments=("--to", "34"))
    cloud.stop("scheduler")
    cloud.restart(34, "scheduler")
    cloud.ends("scheduler", "TooOldComputeService")
    story.did("the scheduler of 34 ends with TooOldComputeService")
    cloud.restart(31, "scheduler")

    story.says("host-aggregates", "success", arguments=to)
    assert story.boot("in-bad", availability_zone="bad") == "ACTIVE"
    story.did("the zone gets a server")
    reported = f"/resource_providers/{story.provider('reported')}"
    generation = story.placement("GET", reported)["generation"]
    body = {"aggregates": [], "resource_provider_generation": generation}
    story.placement("PUT", f"{reported}/aggregates", body)
    story.says("host-aggregates", "warning", "reported", arguments=to)
    assert story.boot("in-good", availability_zone="good") == "ACTIVE"
    assert "No valid host" in story.boot("not-in-bad", availability_zone="bad")
    story.did("no valid host in the zone that is not mirrored; the other zone gets a server")

    story.says("allocations", "success", arguments=to)
    assert "No valid host" in story.boot("refused", "whole", host="unreported")
    story.did("a second server of 16 CPUs has no valid host")
    lost = story.api.server("lost")["id"]
    story.placement("DELETE", f"/allocations/{lost}")
    # A server without allocations counts when it is some minutes old.
    story.wait("the age of lost", lambda: story.checked(*to)["allocations"][0] == "warning")
    story.says("allocations", "warning", "lost on unreported", arguments=to)
    assert story.boot("second", "whole", host="unreported") == "ACTIVE"
    story.did("a second server of 16 CPUs starts on a host with 16 CPUs")

    story.says("step", "success", arguments=to)
    story.says("flavors", "failure", "unknown-security", arguments=to)
    assert story.boot("odd", "unknown-security") == "ACTIVE"
    story.did("nova 31 still starts a server of the flavor")


def services_first(story: Story) -> None:
    """Nova 33 beside nova-computes of 31, with the old and the new Placement."""
    cloud, to = story.cloud, ("--to", "2026.1")
    before = story.checked(*to)
    cloud.stop(*SERVICES)
    cloud.release = 33
    cloud.sync()
    cloud.restart(33, *SERVICES)
    cloud.wait_answer("nova")
    cloud.wait_reported()
    story.row = f"step: {' '.join(before['step'])}"
    assert story.boot("plain-33") == "ACTIVE"
    story.did("the services of 33 start beside nova-computes of 31, and a server starts")

    story.row = f"flavors: {' '.join(before['flavors'])}"
    assert "unknown-security" in before["flavors"][1]
    answer = story.boot("odd-33", "unknown-security")
    assert "TPM secret security 'all' is not supported" in answer, answer
    assert "No valid host" in story.boot("tpm-early", "tpm")
    assert story.boot("sev-33", "sev", "uefi") == "ACTIVE"
    story.did("refuses the first; no valid host for tpm; the flavor sev starts")
    story.row = f"images: {' '.join(before['images'])}"
    assert "No valid host" in story.boot("tpm-image-early", image="with-tpm")
    assert story.boot("uefi-33", image="uefi") == "ACTIVE"
    story.did("no valid host for the image; the image uefi starts")
    story.row = f"servers: {' '.join(before['servers'])}"
    assert "NoValidHost" in story.migrate("sealed")
    story.did("no valid host to move the server to")

    ended = shell.run(["placement", "upgrade", "check", "--from", "2025.1", *to])
    assert (ended.code, "end the upgrade first" in ended.stderr) == (255, True), ended
    story.row = f"command: {ended.stderr.strip()}"
    story.did("nova-api is of 33, and nova-computes are of 31")

    story.row = f"trait-names: {' '.join(before['trait-names'])}"
    cloud.restart(33, "tpm")
    story.logged("tpm", "COMPUTE_SOUND_MODEL")
    assert not story.new_traits("tpm")
    story.did("nova-compute of 33 cannot write its traits")


def predictions(story: Story) -> dict[str, str]:
    """What the command says on nova 31 about its nova-computes of 33: ``{case: row}``."""
    cloud, to = story.cloud, ("--to", "2026.1")
    rows = {}

    def keep(case: str, code: str, result: str, *texts: str, host: str = "snp") -> None:
        story.says(code, result, *texts, arguments=(*to, *story.conf(host)))
        rows[case] = story.row

    keep("unreported", "one-time-use", "failure", "does not start", host="unreported")
    keep("reported", "one-time-use", "success", host="reported")
    keep("reshape", "encryption", "success", "nova's user has the role service")
    story.role(is_given=False)
    keep("no role", "encryption", "failure", "lacks the role service")
    story.role(is_given=True)
    # The operator lowers the number of guests below what runs.
    cloud.stop("sev")
    cloud.add_host("sev", {**SEV, "max_sev_guests": 1})
    cloud.restart(31, "sev")
    story.wait("one guest", lambda: story.offered("sev") == 1)
    keep("too many", "encryption", "failure", "sev: 2 of 1", "Placement refuses this")
    return rows


def computes_next(story: Story) -> None:
    """Nova-computes of 33 with their new traits, and the new Placement."""
    cloud = story.cloud
    cloud.stop("placement")
    cloud.placement = upgrade_cloud.NEW_PLACEMENT
    cloud.sync_placement()
    cloud.start("placement")
    cloud.wait_answer("placement")
    story.says("trait-names", "success", arguments=("--to", "2026.2"))
    cloud.restart(33, "tpm")
    story.wait("the traits of tpm", lambda: story.new_traits("tpm"))
    cloud.wait_reported(["tpm"])
    story.did(f"nova-compute of 33 writes {len(story.new_traits('tpm'))} new traits")
    story.row = "flavors, images: the warnings above"
    assert story.boot("tpm-late", "tpm") == "ACTIVE"
    assert story.boot("tpm-image-late", image="with-tpm") == "ACTIVE"
    story.did("with nova-compute of 33 both start")


def what_stops_a_start(story: Story, rows: Mapping[str, str]) -> None:
    """Nova-computes of 33 that do not start, and their neighbours."""
    cloud = story.cloud
    story.row = rows["unreported"]
    cloud.restart(33, "unreported")
    cloud.ends("unreported", "one_time_use=true requires pci.report_in_placement")
    story.did("nova-compute of 33 ends")
    story.row = rows["reported"]
    cloud.restart(33, "reported")
    story.arrive(SECRET, "reported")
    story.did("nova-compute of 33 starts")
    story.row = "servers: the warning above"
    assert story.migrate("sealed") == "reported"
    story.did("with nova-compute of 33 on another host the server moves")

    guests = story.used("snp")
    story.row = rows["no role"]
    story.role(is_given=False)
    cloud.restart(33, "snp")
    cloud.ends("snp", "Policy does not allow placement:reshaper:reshape")
    assert (story.offered("snp"), story.used("snp")) == (4, guests)
    story.did("Placement refuses the reshape; nova-compute of 33 ends")
    story.row = rows["reshape"]
    story.role(is_given=True)
    cloud.restart(33, "snp")
    story.wait("the reshape", lambda: story.offered("snp_amd_sev"))
    assert (story.offered("snp"), story.used("snp_amd_sev")) == (0, guests)
    story.did(f"nova-compute of 33 moves {guests} guests to a new provider")

    story.row = rows["too many"]
    cloud.restart(33, "sev")
    cloud.ends("sev", "ReshapeFailed")
    assert (story.offered("sev"), story.used("sev")) == (1, 2)
    story.did("Placement refuses the reshape; nova-compute of 33 ends")
    story.placement("DELETE", f"/allocations/{story.api.server('sev-3')['id']}")
    story.row = "encryption: the same host with 1 of 1"
    cloud.restart(33, "sev")
    story.wait("the reshape", lambda: story.offered("sev_amd_sev"))
    story.did("nova-compute of 33 moves the guest to a new provider")


def to_34(story: Story) -> None:
    """From 33 to 34: a nova-compute that is down, SEV-ES beside SEV-SNP, and OWNER_NOVA."""
    cloud, to = story.cloud, ("--to", "2026.2")
    cloud.wait_reported(["snp", "sev"])
    story.says("sev-es", "success", "no guest has SEV-ES", arguments=to)
    no_guest = story.row
    specs = {"hw:mem_encryption": "true", "hw:mem_encryption_model": "amd-sev-es"}
    story.new_flavor("sev-es", 1, specs)
    assert story.boot("es", "sev-es", "uefi", host="snp") == "ACTIVE"
    before = story.checked(*to)
    assert before["computes"][0] == "warning", before
    assert "unreported: nova-compute is not up" in before["computes"][1]
    cloud.stop(*SERVICES)
    cloud.release = 34
    cloud.sync()
    story.row = f"computes: {' '.join(before['computes'])}"
    cloud.restart(34, "scheduler")
    cloud.ends("scheduler", "TooOldComputeService")
    # The API of 33 deletes the service.
    cloud.restart(33, "nova", "conductor")
    cloud.wait_answer("nova")
    story.delete_service("unreported")
    cloud.restart(34, *SERVICES)
    cloud.wait_answer("nova")
    story.did("the scheduler of 34 ends, as it is of 31; without the service it starts")

    story.row = f"sev-es: {' '.join(before['sev-es'])}"
    assert "warning snp: 1 guest with SEV-ES" in story.row
    cloud.add_host("snp", SNP_ON)
    cloud.restart(34, "snp")
    cloud.ends("snp", "memory encryption feature by amd-sev-es")
    story.did("with SEV-SNP on, nova-compute of 34 ends")
    cloud.add_host("snp", SNP_OFF)
    cloud.restart(34, "snp", "sev")
    story.arrive(OWNER, "snp", "sev")
    story.did("with SEV-SNP off, nova-compute of 34 starts")
    story.row = no_guest
    story.empty("snp")
    cloud.add_host("snp", SNP_ON)
    cloud.restart(34, "snp")
    story.wait("a provider of SEV-SNP", lambda: story.provider("snp_amd_sev_snp"))
    story.did("with SEV-SNP on, nova-compute of 34 starts")

    story.row = f"computes: {' '.join(before['computes'])}"
    assert OWNER not in story.asked_for("small")
    cloud.restart(34, "tpm", "reported")
    story.arrive(OWNER, "tpm", "reported")
    cloud.restart(34, "scheduler")
    assert OWNER in story.asked_for("small")
    story.did("requires OWNER_NOVA when every nova-compute is of 34, and not before")
    for name, status in (("small", "ACTIVE"), ("tpm", "ACTIVE")):
        assert story.boot(f"last-{name}", name) == status
    story.row = f"flavors: {' '.join(before['flavors'])}"
    story.did("servers of small and tpm start on nova 34")


def test_each_prediction_is_what_nova_does(story: Story) -> None:
    seed(story)
    before_the_upgrade(story)
    rows = predictions(story)
    services_first(story)
    computes_next(story)
    what_stops_a_start(story, rows)
    to_34(story)
    print(f"{story.count} statements about nova")
