# SPDX-License-Identifier: Apache-2.0
"""``placement server check``."""

from __future__ import annotations

from typing import Any

from osc_placement import testing
from osc_placement.testing.cloud import uuid_of
from tests.support.rows import Row, State, checked, hosts

CHECK = "placement server check"
WEB, TPM = uuid_of("web"), uuid_of("db")
SERVERS = "GET /v2.1/servers/detail"
IMAGE = {"image": {"id": "i", "properties": {}}}
AVX = {"extra_specs": {"trait1:HW_CPU_X86_AVX2": "required"}}


def web(**fields: Any) -> testing.Cloud:
    """Two hosts, and a server of nova on one of them."""
    service = fields.pop("service", {})
    return hosts("a", "b", a=service).instance("web", "a", vcpus=3, **{**IMAGE, **fields})


def four() -> testing.Cloud:
    """A server without needs, one with a virtual TPM, a stopped one and one that is busy."""
    tpm = {"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"}
    made = web().instance("db", "a", vcpus=3, extra_specs=tpm, **IMAGE)
    made.instance("batch", "b", vcpus=3, vm_state="stopped", **IMAGE)
    return made.instance("build", "b", vcpus=3, task_state="rebuilding", **IMAGE)


def sharing(*shares: str) -> State:
    """A server on a host whose memory can be shared, and its shares of manila."""
    made = testing.Cloud("nova-{}").compute("a", VCPU=8, traits=["COMPUTE_MEM_BACKING_FILE"])
    listed = {"shares": [{"share_id": share} for share in shares]}
    made.instance("web", "a", vcpus=3, **IMAGE)
    return State(made, {f"GET /v2.1/servers/{WEB}/shares": listed})


STATES = {
    "share": sharing("one"),
    "no share": sharing(),
    "four": four(),
    "one": web(),
    "no services": State(four(), {"GET /v2.1/os-services": None}),
    "hidden": State(
        web(),
        {
            SERVERS: {
                "servers": [
                    *web().nova()[SERVERS]["servers"],
                    {"id": TPM, "tenant_id": "p", "status": "UNKNOWN"},
                ]
            }
        },
    ),
    "host down": web(service={"state": "down"}),
    "twins": web().instance("twin", "b", vcpus=3, **IMAGE | {"name": "web"}),
    "no request": web(**AVX).instance("db", "a", vcpus=3, **IMAGE, **AVX),
    "volume": web(image=""),
    "volume, TPM": State(
        testing.Cloud().host("a", VCPU=8, traits=["COMPUTE_SECURITY_TPM_2_0"]), web(image="").nova()
    ),
}
SHOWN = {"web": ("yes", "yes", "yes"), "db": ("no", "yes", "no"), "batch": ("no", "yes", "yes")}
UNKNOWN = dict.fromkeys(("live", "cold", "evacuate"), "unknown")
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
    Row(CHECK, "one", 0, [{"server": WEB, "host": "nova-a", **ALL, "reasons": []}]),
    Row(f"{CHECK} --nova-release 32", "share", 3, [
        {"reasons": ["live, cold, evacuate: a share of manila is attached"]}]),
    Row(f"{CHECK} --nova-release 32", "no share", 0, [ALL]),
    Row(CHECK, "hidden", 4, [
        {"server": TPM, **UNKNOWN, "reasons": [("its cell is down",)]}, {"server": WEB, **ALL}]),
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
    Row(f"{CHECK} --host a", "no services", 1, says="--host: not known: compute services: "),
    Row(f"{CHECK} web --host b", "one", 1, says=f"server web ({WEB}) is not on nova-b"),
]
# fmt: on

test_a_server_has_nova_s_own_answer_for_each_way = checked(TABLE, STATES)
