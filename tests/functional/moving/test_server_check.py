# SPDX-License-Identifier: Apache-2.0
"""``placement server check``."""

from __future__ import annotations

from typing import Any

from osc_placement import testing
from osc_placement.testing.cloud import uuid_of
from tests.support.functional_cloud import cloud_of, nova_of, server
from tests.support.peer.shell import OpenStack
from tests.support.rows import Row, State, table

CHECK = "placement server check"
HOSTS = ("a", "b")
PLAIN, TPM, STOPPED, DEAD, TWIN = (uuid_of(name) for name in ("s0", "s1", "s2", "s3", "s4"))


def listed(uuid: str, host: str, name: str, **fields: Any) -> dict[str, Any]:
    specs = fields.pop("specs", {})
    image = {"id": "i", "properties": {}}
    shown = server(uuid, host, **{"name": name, "image": image, **fields})
    shown["flavor"]["extra_specs"] = specs
    return shown


def state(*servers: dict[str, Any], **options: Any) -> State:
    return State(cloud_of(HOSTS), nova_of(*HOSTS, servers=servers, **options))


NO_TPM = listed(PLAIN, "a", "web")
WITH_TPM = listed(TPM, "a", "db", specs={"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"})
OFF = listed(STOPPED, "b", "batch", **{"OS-EXT-STS:vm_state": "stopped"})
BUSY = listed(DEAD, "b", "build", **{"OS-EXT-STS:task_state": "rebuilding"})
STATES = {
    "four": state(NO_TPM, WITH_TPM, OFF, BUSY),
    "one": state(NO_TPM),
    "host down": state(NO_TPM, services={"a": {"state": "down"}}),
    "twins": state(NO_TPM, listed(TWIN, "b", "web")),
    "no request": state(
        *(
            listed(uuid, "a", name, specs={"trait1:HW_CPU_X86_AVX2": "required"})
            for uuid, name in ((PLAIN, "web"), (TPM, "db"))
        )
    ),
    "volume": state(listed(PLAIN, "a", "web", image="")),
    "volume, TPM": state(listed(PLAIN, "a", "web", image=""))._replace(
        cloud=testing.Cloud().host("a", VCPU=8, traits=["COMPUTE_SECURITY_TPM_2_0"])
    ),
}
SHOWN = {"web": ("yes", "yes", "yes"), "db": ("no", "yes", "no"), "batch": ("no", "yes", "yes")}
ALL = {"live": "yes", "cold": "yes", "evacuate": "yes"}


def row(name: str) -> dict[str, str]:
    return {"name": name, **dict(zip(("live", "cold", "evacuate"), SHOWN[name], strict=True))}


# fmt: off
TABLE = [
    Row(f"{CHECK} --nova-release 32", "four", 3,
        [..., row("web"), row("db"), row("batch"),
         {"name": "build", "host": "nova-b", "live": "no", "cold": "no",
          "reasons": [("live, cold: ", "its task is rebuilding")]}],
        "4 servers, live or cold: 1 no, 3 yes"),
    Row(f"{CHECK} --nova-release 32 --way live-migrate", "four", 3,
        [..., row("db")], "4 servers, live-migrate: 3 no, 1 yes"),
    Row(f"{CHECK} --nova-release 32 --cannot", "four", 3, [{"name": "build"}]),
    Row(f"{CHECK} --nova-release 32 --host a --cannot --way live-migrate", "four", 3,
        [{"name": "db", "reasons": [("live, evacuate: ", "virtual TPM")]}]),
    Row(f"{CHECK} --nova-release 32 db", "four", 0, [row("db")]),
    Row(f"{CHECK} --nova-release 32 {TPM.upper()}", "four", 0, [row("db")]),
    Row(CHECK, "one", 0, [{"server": PLAIN, "host": "nova-a", **ALL, "reasons": []}]),
    # The service of the source is that of nova now; an evacuation is checked as if it was down.
    Row(CHECK, "host down", 3, [{"live": "no", "cold": "no", "evacuate": "yes"}]),
    # A volume's image may request a virtual TPM, and nova does not show it: where the host has one.
    Row(CHECK, "volume", 0, [{"live": "yes"}]),
    Row(f"{CHECK} --nova-release 32 --way live-migrate", "volume, TPM", 4,
        [{"live": "unknown", "reasons": [("the properties of its volume's image",)]}]),
    # Alike servers share a request; a refusal names its own server.
    Row(CHECK, "no request", 3,
        [..., {"name": "web", "live": "no", "reasons": [("of server web:",)]},
         {"name": "db", "live": "no", "reasons": [("of server db:",)]}]),
    Row(f"{CHECK} absent", "one", 1, says="nova has no server with the name or UUID 'absent'"),
    Row(f"{CHECK} web", "twins", 1, says="nova has 2 servers with the name or UUID 'web'"),
    Row(f"{CHECK} --host absent", "one", 1, says="absent"),
    Row(f"{CHECK} web --host b", "one", 1, says=f"server web ({PLAIN}) is not on nova-b"),
]
# fmt: on


@table(TABLE)
def test_a_server_has_nova_s_own_answer_for_each_way(openstack: OpenStack, row: Row) -> None:
    row.check(openstack, STATES)
