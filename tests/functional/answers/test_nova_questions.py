# SPDX-License-Identifier: Apache-2.0
"""Commands that ask about nova's servers, flavors and images, from recorded answers of nova."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.functional_cloud import allocate, compute_hosts, create, nova_recording
from tests.support.peer import fixtures
from tests.support.peer.shell import OpenStack

EXPLAIN = "allocation candidate explain"
AUDIT = "placement flavor audit"
STOP = "placement host check"

AGGREGATE = "00000000-0000-4000-8000-0000000000a1"
PORT = "00000000-0000-4000-8000-0000000000b1"
SERVER = "00000000-0000-4000-8000-0000000000c1"
LOST = "00000000-0000-4000-8000-0000000000c2"


def flavor(name: str, vcpus: int, **specs: str) -> dict[str, Any]:
    return {
        "id": name, "name": name, "vcpus": vcpus, "ram": 16, "disk": 0, "swap": 0,
        "OS-FLV-EXT-DATA:ephemeral": 0,
        "extra_specs": {key.replace("__", ":"): value for key, value in specs.items()},
    }  # fmt: skip


FLAVORS = [
    flavor("small", 2),
    flavor("large", 9),
    flavor("avx", 2, trait__HW_CPU_X86_AVX="required"),
    flavor("typo", 2, trait__CUSTOM_TYPO="forbidden"),
    flavor("typo-required", 2, trait__CUSTOM_TYPO="required"),
    flavor("typo-class", 2, resources__CUSTOM_TYPO="1"),
    flavor("cyborg", 2, accel__device_profile="gpu"),
    flavor("pci", 2, pci_passthrough__alias="nic:1"),
]


def server(uuid: str) -> dict[str, Any]:
    embedded = {key: value for key, value in FLAVORS[2].items() if key not in ("id", "name")}
    return {
        "id": uuid, "name": "web", "tenant_id": "p", "user_id": "u", "status": "ACTIVE",
        "OS-EXT-SRV-ATTR:host": "nova-plain", "OS-EXT-SRV-ATTR:hypervisor_hostname": "plain",
        "OS-EXT-STS:vm_state": "active", "OS-EXT-STS:task_state": None, "image": "",
        "flavor": {**embedded, "ephemeral": 0, "original_name": "avx"},
        "pinned_availability_zone": "az1", "created": "", "updated": "",
    }  # fmt: skip


def recorded(hosts: Mapping[str, str]) -> dict[str, Any]:
    aggregate = {
        "id": 1, "name": "az1", "uuid": AGGREGATE, "hosts": ["nova-avx"],
        "metadata": {"availability_zone": "az1"},
    }  # fmt: skip
    port = {
        "id": PORT, "name": "fast", "device_id": "", "revision_number": 1,
        "resource_request": {
            "resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 100}, "required": ["CUSTOM_PHYSNET"],
        },
    }  # fmt: skip
    lost = {"id": LOST, "tenant_id": "p", "status": "UNKNOWN"}
    return {
        "GET /v2.1/flavors/detail": {"flavors": list(FLAVORS)},
        "GET /v2.1/os-aggregates": {"aggregates": [aggregate]},
        **compute_hosts(hosts),
        "GET /v2.1/os-server-groups": {"server_groups": []},
        f"GET /v2.1/servers/detail?uuid={SERVER}": {"servers": [server(SERVER)]},
        f"GET /v2.1/servers/detail?uuid={LOST}": {"servers": [lost]},
        "GET /v2.0/ports": {"ports": [port]},
        "GET /v2/images/tuned": {
            "id": "tuned", "name": "tuned", "disk_format": "qcow2",
            "trait:HW_CPU_X86_AVX2": "required",
        },
        **{
            f"GET /v2/images/{value}-typo": {
                "id": f"{value}-typo", "name": f"{value}-typo", "disk_format": "qcow2",
                "trait:CUSTOM_TYPO": value,
            }
            for value in ("required", "forbidden")
        },
    }  # fmt: skip


@pytest.fixture
def nova(openstack: OpenStack) -> tuple[str, str]:
    """Two hosts of 8 VCPU, ``avx`` with the trait in the zone az1; the server is on ``plain``."""
    hosts = {name: create(openstack, name, VCPU=8, MEMORY_MB=64) for name in ("plain", "avx")}
    openstack("resource provider trait set", hosts["avx"], "--trait=HW_CPU_X86_AVX")
    openstack("resource provider aggregate add", hosts["avx"], "--aggregate", AGGREGATE)
    openstack.do("trait create", "CUSTOM_PHYSNET", version="1.6")
    allocate(openstack, hosts["plain"], "VCPU=2,MEMORY_MB=16", SERVER)
    return nova_recording(recorded(hosts))


def explained(openstack: OpenStack, *arguments: str) -> tuple[int, dict[str, list[Any]]]:
    ended = openstack.run(EXPLAIN, *arguments, "-f", "json")
    found: dict[str, list[Any]] = {}
    for row in json.loads(ended.stdout):
        found.setdefault(row["section"], []).append(row)
    return ended.code, found


def sources(found: dict[str, list[Any]]) -> dict[str, tuple[str, int]]:
    return {row["text"]: (row["source"], row["hosts"]) for row in found["constraint"]}


def test_a_server_is_explained_by_its_flavor_and_zone(
    openstack: OpenStack, nova: tuple[str, str]
) -> None:
    code, found = explained(openstack, "--server", SERVER, *nova)
    assert explained(openstack, "--server", SERVER.upper(), *nova) == (code, found)
    assert (code, [row["host"] for row in found["candidate"]]) == (0, ["avx"])
    assert sources(found) == {
        "resources=VCPU:2": ("flavor: vcpus=2", 2),
        "resources=MEMORY_MB:16": ("flavor: ram=16", 2),
        "required=HW_CPU_X86_AVX": ("flavor extra specs: trait:HW_CPU_X86_AVX=required", 1),
        f"member_of={AGGREGATE} (az1)": ("request filter: availability zone: az1", 1),
        "root_required=!COMPUTE_STATUS_DISABLED": ("request filter: compute status", 1),
    }
    verdicts = {row["reason"]: row["verdict"] for row in found["nova-filter"]}
    assert verdicts["ComputeFilter"] == "accepts"
    assert verdicts["ServerGroupAffinityFilter"] == "accepts"


def down(openstack: OpenStack) -> tuple[str, str]:
    """The options for a nova on which the nova-compute of ``avx`` is down."""
    hosts = {item["name"]: item["uuid"] for item in openstack("resource provider list")}
    services = compute_hosts(hosts, {"avx": {"state": "down"}})
    return nova_recording({**recorded(hosts), **services}, "down.json")


def test_the_commands_name_a_host_with_a_compute_service_that_is_down(
    openstack: OpenStack, nova: tuple[str, str]
) -> None:
    options = down(openstack)
    code, found = explained(openstack, "--flavor", "avx", *options)
    assert (code, "candidate" in found) == (3, False)
    ((text, host),) = ((row["text"], row["host"]) for row in found["not-counted"])
    assert (text, host) == ("nova-compute down", "avx")
    # The next nearest host is explained.
    assert {row["host"] for row in found["failure"]} == {"plain"}
    ended = openstack.run(EXPLAIN, "--flavor", "avx", *options)
    assert "no compute host (0 of 2) can serve the request" in ended.messages
    assert "Not counted: avx (nova-compute down)" in ended.messages
    ended = openstack.run(AUDIT, "avx", *options, "-f", "json")
    (row,) = json.loads(ended.stdout)
    assert ended.code == 3
    assert (row["code"], row["hosts"], row["hosts_if_empty"]) == ("out-of-service", 0, 0)
    assert row["not_counted"] == [{"host": "avx", "reason": "nova-compute down"}]
    (row,) = openstack("placement capacity show", "--flavor", "avx", *options)
    assert (row["fits"], row["hosts"], row["not_counted"][0]["host"]) == (0, 0, "avx")
    ended = openstack.run(STOP, "plain", *options, "-f", "json")
    assert (ended.code, json.loads(ended.stdout)["answer"]) == (3, "no")


def test_a_filter_that_nova_conf_enables_refuses_hosts(
    openstack: OpenStack, nova: tuple[str, str]
) -> None:
    hosts = {item["name"]: item["uuid"] for item in openstack("resource provider list")}
    answers = recorded(hosts)
    answers["GET /v2.1/flavors/detail"]["flavors"].append(flavor("ssd", 2, ssd="true"))
    options = nova_recording(answers)
    code, found = explained(openstack, "--flavor", "ssd", *options)
    # It refuses both hosts if it is enabled.
    assert (code, len(found["candidate"])) == (4, 2)
    name = "AggregateInstanceExtraSpecsFilter"
    lines = [row["text"] for row in found["not-checked"]]
    assert f"{name}: nova.conf says whether it is enabled" in lines
    assert explained(openstack, "--flavor", "ssd", "--no-nova", *options)[0] == 0
    pathlib.Path("nova.conf").write_text(
        f"[filter_scheduler]\nenabled_filters = ComputeFilter,{name}\n"
    )
    conf = ("--nova-conf", "nova.conf")
    code, found = explained(openstack, "--flavor", "ssd", *conf, *options)
    assert (code, len(found["not-counted"])) == (3, 2)
    assert {row["text"] for row in found["not-counted"]} == {f"{name}: no aggregate has ssd"}


_ALIAS = '[pci]\nalias = {"name": "nic", "vendor_id": "8086", "product_id": "154d"}\n'
_SERVICES = "GET /v2.1/os-services"


@pytest.mark.parametrize(
    ("flavor_name", "unread", "conf", "down"),
    [
        # An alias that only nova.conf explains; no host has such a device.
        ("pci", "", f"{_ALIAS}[filter_scheduler]\npci_in_placement = true\n", False),
        # Services that nova does not show; they are down.
        ("small", _SERVICES, "", True),
        # A filter that nova may use; it refuses all hosts.
        (
            "ssd",
            "",
            "[filter_scheduler]\nenabled_filters = AggregateInstanceExtraSpecsFilter\n",
            False,
        ),
    ],
)
def test_what_was_not_checked_makes_a_yes_unknown_because_it_can_be_a_no(
    openstack: OpenStack,
    nova: tuple[str, str],
    flavor_name: str,
    unread: str,
    conf: str,
    down: bool,
) -> None:
    hosts = {item["name"]: item["uuid"] for item in openstack("resource provider list")}
    openstack.do("resource class create", "CUSTOM_PCI_8086_154D")
    answers = recorded(hosts)
    answers["GET /v2.1/flavors/detail"]["flavors"].append(flavor("ssd", 2, ssd="true"))
    pathlib.Path("nova.conf").write_text(conf)
    options = ("--nova-conf", "nova.conf") if conf else ()
    known = dict(answers)
    if down:
        known |= compute_hosts(hosts, {name: {"state": "down"} for name in hosts})
    asked = ("--flavor", flavor_name)
    hidden = {path: answer for path, answer in answers.items() if path != unread}
    hidden |= dict.fromkeys([unread], None) if unread else {}
    code, found = explained(openstack, *asked, *nova_recording(hidden))
    assert (code, bool(found["candidate"]), bool(found["not-checked"])) == (4, True, True)
    code, found = explained(openstack, *asked, *options, *nova_recording(known))
    assert (code, "candidate" in found) == (3, False)


def test_without_nova_the_compute_services_are_not_checked(
    openstack: OpenStack, nova: tuple[str, str]
) -> None:
    for command in (EXPLAIN, "placement capacity show"):
        arguments = (command, "--resource", "VCPU=1")
        ended = openstack.run(*arguments)
        assert (ended.code, "Not checked: compute services: " in ended.messages) == (0, True)
        assert openstack.run(*arguments, "--strict").code == 4
        assert openstack.run(*arguments, "--strict", *nova).code == 0
        assert openstack.run(*arguments, "--strict", "--no-nova", *nova).code == 4
    assert openstack.run(AUDIT, "small", "--strict", *nova).code == 0
    assert openstack.run(AUDIT, "small", "--strict", "--no-nova", *nova).code == 4


def test_without_nova_a_host_is_named_as_its_provider(
    openstack: OpenStack, nova: tuple[str, str]
) -> None:
    for arguments in ((EXPLAIN, "--resource", "VCPU=1", "--host"), (STOP,)):
        by_provider, by_host = (*arguments, "avx", *nova), (*arguments, "nova-avx", *nova)
        assert openstack.run(*by_host).code == openstack.run(*by_provider).code != 1
        code, text = openstack.fails(*by_host, "--no-nova")
        assert (code, "'nova-avx'" in text) == (1, True)
        assert openstack.run(*by_provider, "--no-nova").code != 1


def test_a_zone_that_nova_does_not_have_is_an_error_with_the_zones(
    openstack: OpenStack, nova: tuple[str, str]
) -> None:
    zone = ("--flavor", "small", "--availability-zone")
    text = openstack.fails(EXPLAIN, *zone, "nowhere", *nova)[1]
    assert "nova has no availability zone 'nowhere'; it has az1, nova" in text
    # Nova's default zone is no host aggregate.
    assert explained(openstack, *zone, "nova", *nova)[0] == 0


def test_a_host_that_only_nova_has_in_the_zone_needs_the_mirror(
    openstack: OpenStack, nova: tuple[str, str]
) -> None:
    openstack.do("resource provider aggregate remove", "avx", "--aggregate", AGGREGATE)
    arguments = ("--flavor", "small", "--availability-zone", "az1", "--nearest", "2", *nova)
    code, found = explained(openstack, *arguments)
    assert code == 3
    failures = {row["host"]: row["text"] for row in found["failure"]}
    assert failures["avx"] == (
        f"not in aggregate {AGGREGATE} (az1): nova has it there (1 host in nova, 0 in Placement)"
    )
    commands = {row["host"]: row["commands"] for row in found["change"] if row["host"]}
    assert commands == {
        "avx": [f"openstack placement aggregate mirror --host-aggregate={AGGREGATE}"],
        "plain": ["openstack aggregate add host az1 nova-plain"],
    }


@fixtures.ON_ONE_TARGET
@pytest.mark.parametrize(
    "arguments",
    [("--flavor=small", "--availability-zone=az1"), ("--resource=VCPU=1", "--member-of=az1")],
)
def test_the_hosts_that_nova_has_in_an_aggregate_are_the_nearest(
    openstack: OpenStack, nova: tuple[str, str], arguments: tuple[str, ...]
) -> None:
    """A host of the zone with less memory is nearer than a host of another zone."""
    create(openstack, "a-other", VCPU=8, MEMORY_MB=64)
    openstack.do("resource provider aggregate remove", "avx", "--aggregate", AGGREGATE)
    amend = "resource provider inventory amend --resource=VCPU:reserved=8 --allow=nothing-left"
    openstack.do(amend, "avx")
    code, found = explained(openstack, *arguments, "--nearest", "1", *nova)
    (change,) = (row for row in found["change"] if row["host"])
    assert (code, change["host"]) == (3, "avx")
    mirrored = f"mirror nova's host aggregate {AGGREGATE} (az1), which has avx, to Placement"
    assert mirrored in change["text"]
    assert f"remove member_of={AGGREGATE} (az1)" in {row["text"] for row in found["change"]}


def test_a_disabled_service_is_enabled_and_the_request_keeps_its_condition(
    openstack: OpenStack, nova: tuple[str, str]
) -> None:
    openstack("resource provider trait add", "avx", "--trait", "COMPUTE_STATUS_DISABLED")
    answers = json.loads(pathlib.Path(nova[1]).read_text())
    for service in answers["GET /v2.1/os-services"]["services"]:
        service["status"] = "disabled"
    disabled = nova_recording(answers, "disabled.json")
    code, found = explained(openstack, "--flavor", "avx", *disabled)
    assert code == 3
    changes = [(row["text"], row["commands"]) for row in found["change"] if row["host"] == "avx"]
    enable = "openstack compute service set --enable nova-avx nova-compute"
    assert changes == [("enable the compute service of avx", [enable])]
    assert not any("COMPUTE_STATUS_DISABLED" in row["text"] for row in found["change"])
    # Nova does nothing for a service that is enabled already.
    _, found = explained(openstack, "--flavor", "avx", *nova)
    texts = [row["text"] for row in found["change"] if row["host"] == "avx"]
    assert texts == ["remove the trait COMPUTE_STATUS_DISABLED from avx"]


def test_a_renamed_provider_is_still_the_host_of_its_compute_node(
    openstack: OpenStack, nova: tuple[str, str]
) -> None:
    openstack("resource provider aggregate remove", "avx", "--aggregate", AGGREGATE)
    openstack("resource provider set", "avx", "--name", "renamed")
    arguments = ("--flavor", "avx", "--availability-zone", "az1")
    code, found = explained(openstack, *arguments, *nova)
    (change,) = (row for row in found["change"] if row["host"] == "renamed")
    mirror = "openstack placement aggregate mirror --host-aggregate="
    assert (code, change["commands"]) == (3, [f"{mirror}{AGGREGATE}"])


def test_candidates_of_a_flavor_are_listed(openstack: OpenStack, nova: tuple[str, str]) -> None:
    rows = openstack("allocation candidate list", "--flavor", "avx", *nova)
    assert [row["allocation"] for row in rows] == ["VCPU=2,MEMORY_MB=16"]
    options = ("--resource=VCPU=2", "--resource=MEMORY_MB=16", "--required=HW_CPU_X86_AVX")
    (row,) = openstack("allocation candidate list", *options)
    assert row["resource provider"] == rows[0]["resource provider"]
    limited = openstack("allocation candidate list", "--flavor", "small", "--limit", "1", *nova)
    assert len(limited) == 1
    assert len(openstack("allocation candidate list", "--flavor", "small", *nova)) == 2


def test_a_bad_flavor_does_not_hide_the_count_of_others(
    openstack: OpenStack, nova: tuple[str, str]
) -> None:
    flavors = [f"--flavor={name}" for name in ("cyborg", "small", "typo", "absent")]
    ended = openstack.run("placement capacity show", *flavors, *nova, "-f", "json")
    assert ended.code == 1
    counts = {row["request"]: row["fits"] for row in json.loads(ended.stdout)}
    assert counts.keys() == {"small", "typo"}
    for name in ("cyborg", "absent"):
        assert f"Not counted: flavor {name}: " in ended.stderr


@pytest.mark.parametrize(
    ("flavor", "image"),
    [
        ("typo", ""),
        ("typo-required", ""),
        ("typo-class", ""),
        ("small", "required-typo"),
        ("avx", "required-typo"),
    ],
)
def test_nova_finds_no_host_for_an_unknown_name_in_a_flavor_or_image(
    openstack: OpenStack, nova: tuple[str, str], flavor: str, image: str
) -> None:
    """Placement answers 400 then, and nova says "No valid host"."""
    asked = (f"--flavor={flavor}", *([f"--image={image}"] if image else []), *nova)
    for part in ((), ("--by", "host")):
        show = ("placement capacity show", *asked, *part)
        ended = openstack.run(*show, "-f", "json")
        (row,) = json.loads(ended.stdout)
        assert (row["request"], row["fits"], row["hosts"], ended.code) == (flavor, 0, 0, 0)
        assert "CUSTOM_TYPO" in row["notes"][0]
        assert f"Nova finds no host for {flavor}: {row['notes'][0]}" in ended.stderr
        assert flavor in openstack.run(*show).stdout
    code, found = explained(openstack, *asked)
    assert (code, found.get("candidate")) == (3, None)
    assert "CUSTOM_TYPO" in json.dumps(found)


def test_nova_reads_no_forbidden_trait_of_an_image(
    openstack: OpenStack, nova: tuple[str, str]
) -> None:
    asked = ("placement capacity show", "--flavor=small", *nova)
    plain, forbidden = openstack(*asked), openstack(*asked, "--image=forbidden-typo")
    assert (plain[0]["fits"], forbidden[0]["fits"]) == (7, 7)


@pytest.mark.parametrize(
    "query",
    [
        "resources=VCPU:1&required=!CUSTOM_TYPO",
        "resources=VCPU:1&required=CUSTOM_TYPO",
        "resources=CUSTOM_TYPO:1",
    ],
)
def test_a_query_of_a_log_with_an_unknown_name_is_answered_no_with_its_cause(
    openstack: OpenStack, nova: tuple[str, str], query: str
) -> None:
    ended = openstack.run("placement capacity show", "--query", query, *nova, "-f", "json")
    (row,) = json.loads(ended.stdout)
    assert (row["fits"], ended.code) == (0, 0)
    assert "CUSTOM_TYPO" in row["notes"][0]
    ended = openstack.run(EXPLAIN, "--query", query, *nova)
    assert (ended.code, "CUSTOM_TYPO" in ended.stderr) == (3, True), ended.stderr
    # An option is a mistake of the operator.
    trait = ("--forbidden", "CUSTOM_TYPO", "--resource", "VCPU=1")
    for command in (EXPLAIN, "placement capacity show"):
        assert openstack.run(command, *trait, *nova).code == 1


def test_a_flavor_with_an_unknown_trait_has_an_unknown_name_whatever_has_room(
    openstack: OpenStack, nova: tuple[str, str]
) -> None:
    """Placement does not look the trait up while no host has room."""
    (before,) = openstack.rows(AUDIT, "typo", *nova, code=3)
    hosts = {item["name"]: item["uuid"] for item in openstack("resource provider list")}
    allocate(openstack, hosts["plain"], "VCPU=6", PORT)
    allocate(openstack, hosts["avx"], "VCPU=8", LOST)
    (after,) = openstack.rows(AUDIT, "typo", *nova, code=3)
    assert (before["code"], after["code"]) == ("unknown-name", "unknown-name")
    assert "CUSTOM_TYPO" in after["reason"]


def test_an_unknown_flavor_does_not_hide_the_audit_of_others(
    openstack: OpenStack, nova: tuple[str, str]
) -> None:
    rows = openstack.rows(AUDIT, "small", "absent", *nova, code=3)
    assert [(row["name"], row["code"]) for row in rows] == [
        ("small", "ok"), ("absent", "unknown-flavor")
    ]  # fmt: skip
    assert "None" not in openstack.run(AUDIT, "small", "absent", *nova).stdout


def test_a_server_whose_image_is_not_recorded_is_explained_with_an_assumption(
    openstack: OpenStack, nova: tuple[str, str]
) -> None:
    hosts = {item["name"]: item["uuid"] for item in openstack("resource provider list")}
    answers = recorded(hosts)
    answers[f"GET /v2.1/servers/detail?uuid={SERVER}"] = {
        "servers": [{**server(SERVER), "image": {"id": "gone"}}]
    }
    image_type = ("--filter", "image-type")
    code, found = explained(openstack, "--server", SERVER, *image_type, *nova_recording(answers))
    assert (code, [row["host"] for row in found["candidate"]]) == (0, ["avx"])
    assumed = "the format of the image gone is not known: nova.json holds no response"
    assert any(row["text"].startswith(assumed) for row in found["assumption"])


def test_an_image_and_a_port_are_parts_of_the_request(
    openstack: OpenStack, nova: tuple[str, str]
) -> None:
    code, found = explained(
        openstack, "--flavor", "small", "--image", "tuned", "--port", PORT, *nova
    )
    assert code == 3
    known = sources(found)
    assert known["required=HW_CPU_X86_AVX2"][0].startswith("image traits")
    group = f"resources{PORT}=NET_BW_EGR_KILOBIT_PER_SEC:100"
    assert known[group] == ("port resource requests: port fast", 0)


INVALID = (
    (["--flavor", "cyborg"], "only Cyborg knows the resources of the device profile gpu"),
    (["--flavor", "absent"], "nova has no flavor with the name or ID 'absent'"),
    (["--server", LOST], "its cell is down"),
    (["--server", PORT], "nova"),
    (["--flavor", "small", "--port", SERVER], "neutron has no port"),
    (["--flavor", "small", "--resource", "VCPU=1"], "not allowed with options of a query"),
    (["--server", SERVER, "--flavor", "small"], "--server: not allowed with"),
)


def test_what_placement_does_not_have_is_a_no_with_its_cause(
    openstack: OpenStack, nova: tuple[str, str]
) -> None:
    hosts = {item["name"]: item["uuid"] for item in openstack("resource provider list")}
    absent = {"resources:CUSTOM_ABSENT": "1"}
    more = {**flavor("class", 2), "extra_specs": absent}
    both = {**flavor("both", 2), "extra_specs": {**absent, "trait:CUSTOM_TYPO": "required"}}
    flavors = {"GET /v2.1/flavors/detail": {"flavors": [*FLAVORS, more, both]}}
    options = nova_recording({**recorded(hosts), **flavors}, "typos.json")
    for name, cause in (("typo", "CUSTOM_TYPO"), ("class", "CUSTOM_ABSENT"), ("both", "CUSTOM_")):
        ended = openstack.run(EXPLAIN, "--flavor", name, *options)
        assert ended.code == 3
        first, reason, *_ = ended.messages.splitlines()
        assert first.endswith("no compute host can serve the request")
        assert reason.startswith("Reason: Placement refuses nova's request: ")
        assert cause in ended.messages


def test_invalid_input_is_named(openstack: OpenStack, nova: tuple[str, str]) -> None:
    for arguments, message in INVALID:
        assert message in openstack.fails(EXPLAIN, *arguments, *nova)[1]


def test_flavors_are_audited(openstack: OpenStack, nova: tuple[str, str]) -> None:
    ended = openstack.run(AUDIT, *nova, "-f", "json")
    rows = json.loads(ended.stdout)
    assert ended.code == 3
    assert {row["name"]: (row["code"], row["hosts"], row["hosts_if_empty"]) for row in rows} == {
        "small": ("ok", 2, 2),
        "large": ("no-host", 0, 0),
        "avx": ("one-host", 1, 1),
        **dict.fromkeys(("typo", "typo-required", "typo-class"), ("unknown-name", 0, None)),
        "cyborg": ("invalid", 0, None),
        "pci": ("unknown", 2, 2),
    }
    assert [row["name"] for row in rows] == sorted(row["name"] for row in rows)
    owner = "nova does not require OWNER_NOVA, because no host has it"
    assert {row["name"] for row in rows if any(owner in text for text in row["assumed"])} == {
        "small", "large", "avx", "typo", "typo-required", "typo-class", "pci",
    }  # fmt: skip
    assert "None" not in openstack.run(AUDIT, *nova).stdout
    assert openstack.run(AUDIT, "small", *nova).code == 0
    assert openstack.run(AUDIT, "small", "pci", *nova).code == 4
    assert openstack.run(AUDIT, "small", "avx", "--fail-on", "no-host", *nova).code == 0
    assert openstack.run(AUDIT, "--fail-on", "no-host", *nova).code == 3


def test_capacity_lists_what_a_flavor_leaves_open(
    openstack: OpenStack, nova: tuple[str, str]
) -> None:
    flavors = ("placement capacity show", "--flavor", "small", "--flavor", "pci")
    ended = openstack.run(*flavors, *nova, "-f", "json")
    answer = json.loads(ended.stdout)
    owner = "nova does not require OWNER_NOVA, because no host has it"
    assert all(any(owner in text for text in row["assumed"]) for row in answer)
    rows = {row["request"]: row["not_checked"] for row in answer}
    assert rows["small"] == []
    (text,) = rows["pci"]
    assert text.startswith("the devices of the PCI alias nic are not in the query")
    assert ended.code == 4
    assert openstack.run(*flavors, "--no-nova", *nova).code == 0
    assert openstack.run(*flavors[:3], "--strict", *nova).code == 0


def test_what_the_audit_of_flavors_assumes_is_named(
    openstack: OpenStack, nova: tuple[str, str]
) -> None:
    pathlib.Path("nova.conf").write_text(
        "[scheduler]\nquery_placement_for_routed_network_aggregates = true\n"
        '[pci]\nalias = {"name": "nic", "vendor_id": "8086", "product_id": "154d"}\n'
    )
    ended = openstack.run(AUDIT, "--nova-conf", "nova.conf", *nova, "-f", "json")
    lines = [
        line.partition(" are not ")[0]
        for line in ended.messages.splitlines()
        if line.startswith(("Assumed", "Not checked", "Note"))
    ]
    assert lines == [
        "Assumed: nova shows no version: the rules of nova 34 (--nova-release)",
        "Assumed: nova does not require OWNER_NOVA, because no host has it: nova does once every"
        " nova-compute is nova 34 (--filter owner)",
        "Assumed: the image has no properties that change the request",
        "Not checked for pci: the devices of the PCI alias nic",
        "Note: the aggregates of routed networks",
    ]
    rows = {row["name"]: row for row in json.loads(ended.stdout)}
    assert [len(rows[name]["assumed"]) for name in ("small", "pci", "cyborg")] == [3, 3, 0]
    assert [len(rows[name]["not_checked"]) for name in ("small", "pci", "cyborg")] == [0, 1, 0]
    assert [len(rows[name]["notes"]) for name in ("small", "pci", "cyborg")] == [1, 1, 0]
    assert "the device profile gpu" in rows["cyborg"]["reason"]
    ended = openstack.run(AUDIT, "small", *nova)
    assert "routed networks" in ended.messages
    # A finding decides; without one, what was not checked of a flavor counts.
    for flavor, code in (("small", 0), ("pci", 4), ("cyborg", 3)):
        assert openstack.run(AUDIT, flavor, *nova).code == code


def test_a_server_moves_to_a_host_with_the_traits_of_its_flavor(
    openstack: OpenStack, nova: tuple[str, str]
) -> None:
    ended = openstack.run(STOP, "plain", *nova, "-f", "json")
    assert (ended.code, json.loads(ended.stdout)["unplaced"]) == (0, [])
    openstack.do("resource provider trait delete", "avx")
    ended = openstack.run(STOP, "plain", *nova, "-f", "json")
    found = json.loads(ended.stdout)
    assert (ended.code, found["unplaced"][0]["reasons"]) == (
        3,
        ["no other host has room with required=HW_CPU_X86_AVX"],
    )
    assert f"local disks, which only a migration moves: server {SERVER}" not in found["notes"]


#: The commands about a request of nova, and their exit codes if the root providers of no host, of
#: one that cannot serve it, and of all have the trait OWNER_NOVA.
OWNED = (
    ((EXPLAIN, "--flavor", "avx"), (4, 3, 0)),
    (("placement capacity show", "--flavor", "avx"), (4, 0, 0)),
    ((AUDIT, "small"), (4, 3, 0)),
)


def test_a_nova_34_requires_the_owner_that_its_hosts_have(
    openstack: OpenStack, nova: tuple[str, str]
) -> None:
    hosts = {item["name"]: item["uuid"] for item in openstack("resource provider list")}
    version = {"GET /v2.1/": {"version": {"version": "2.104"}}}
    newest = nova_recording({**recorded(hosts), **version}, "newest.json")

    def codes() -> list[int]:
        return [openstack.run(*arguments, *newest).code for arguments, _ in OWNED]

    assert codes() == [none for _, (none, _, _) in OWNED]
    lines = openstack.run(EXPLAIN, "--flavor", "avx", *newest).messages.splitlines()
    assert "can serve the request of nova 34" in lines[0]
    assert lines[1].startswith("no compute host (0 of 2) can serve the request of nova 34 that req")
    explicit = openstack.run(EXPLAIN, "--flavor", "avx", "--filter", "owner", *newest)
    assert explicit.code == 3
    openstack("resource provider trait set", hosts["plain"], "--trait=OWNER_NOVA")
    assert codes() == [one for _, (_, one, _) in OWNED]
    _, found = explained(openstack, "--flavor", "avx", "--host", "nova-avx", *newest)
    assert found["change"][0]["text"] == "add the trait OWNER_NOVA to avx"
    both = ("--trait=HW_CPU_X86_AVX", "--trait=OWNER_NOVA")
    openstack("resource provider trait set", hosts["avx"], *both)
    assert codes() == [every for _, (_, _, every) in OWNED]
