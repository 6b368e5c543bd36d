# SPDX-License-Identifier: Apache-2.0
"""What nova refuses, by way and release: the answers of nova's own code, and a draw of servers.

``--long`` asks every release. The tables are measured: a row that fails says that a release of nova
decides otherwise.
"""

from __future__ import annotations

import collections
import itertools
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from lab import install, place

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

Case = dict[str, Any]

RELEASES = (27, 29, 32, 34)
MANY = 2000


def ask(release: int, questions: Sequence[Case]) -> list[dict[str, Any]]:
    """The answers of a release of nova."""
    return ask_module(release, "lab.api_refusals", questions)


def ask_module(
    release: int, module: str, questions: Sequence[Case], *options: str
) -> list[dict[str, Any]]:
    """The answer of a module to each question, a line of JSON."""
    text = "".join(f"{json.dumps(question)}\n" for question in questions)
    words = ("-m", module, *options)
    output = install.output_of_release(place.find(), release, *words, text=text)
    return [json.loads(line) for line in output.splitlines()]


def words(release: int) -> Mapping[str, Any]:
    """Nova's names of ways, states, tasks, power states and types of ports."""
    (answer,) = ask(release, [{"do": "words"}])
    return answer


VTPM, SHARE = "OperationNotSupportedForVTPM", "ForbiddenWithShare"
SEV, MEMORY = "OperationNotSupportedForSEV", "OperationNotSupportedForMemEncryption"
PROFILE, PORTS = "ForbiddenWithAccelerators", "ForbiddenPortsWithAccelerator"
DEVICE, STATE, READY = "MigrationPreCheckError", "InstanceInvalidState", "InstanceNotReady"
OK = "ok"
#: What nova says: a class of its exceptions or ``ok``, or such a word from a release on.
Expected = str | Mapping[int, str]

UEFI = {"hw_firmware_type": "uefi", "hw_machine_type": "q35"}
STATELESS = {**UEFI, "hw_firmware_stateless": "true"}
ALIAS = {"name": "gpu", "vendor_id": "10de", "product_id": "1eb8", "device_type": "type-PCI"}
TPM = {"hw:tpm_version": "2.0"}
GPU = {"pci_passthrough:alias": "gpu:1"}


def tpm_secret(security: str) -> Mapping[str, str]:
    return {**TPM, "hw:tpm_secret_security": security}


def encrypted(model: str) -> Mapping[str, str]:
    return {"hw:mem_encryption": "true", "hw:mem_encryption_model": model}


def port(kind: str, *, request: bool = False) -> Case:
    return {"ports": [{"vnic_type": kind, "request": request}]}


SERVERS: Mapping[str, Case] = {
    "plain": {},
    "secret host without vtpm": {"specs": {"hw:tpm_secret_security": "host"}},
    "mem_encryption=false": {"specs": {"hw:mem_encryption": "false"}},
    "pinned": {"specs": {"hw:cpu_policy": "dedicated"}},
    "numa 2": {"specs": {"hw:numa_nodes": "2"}},
    "realtime": {
        "specs": {
            "hw:cpu_policy": "dedicated",
            "hw:cpu_realtime": "yes",
            "hw:cpu_realtime_mask": "^0",
        }
    },
    "large pages": {"specs": {"hw:mem_page_size": "large"}},
    "uefi": {"image": UEFI},
    "secure boot": {"image": {**UEFI, "os_secure_boot": "required"}},
    "volume": {"volume": True},
    "encrypted ephemeral": {"specs": {"hw:ephemeral_encryption": "true"}},
    "locked": {"locked": True},
    "vtpm by flavor": {"specs": TPM},
    "vtpm by image": {"image": {"hw_tpm_version": "2.0"}},
    "vtpm 1.2 by image": {"image": {"hw_tpm_version": "1.2"}},
    "vtpm by image, image deleted": {"image": {"hw_tpm_version": "2.0"}, "image_deleted": True},
    "vtpm, secret user": {"specs": tpm_secret("user")},
    "vtpm, secret deployment": {"specs": tpm_secret("deployment")},
    "vtpm, secret host": {"specs": tpm_secret("host")},
    "vtpm by image, secret host": {
        "specs": {"hw:tpm_secret_security": "host"},
        "image": {"hw_tpm_version": "2.0"},
    },
    "sev by flavor": {"specs": {"hw:mem_encryption": "true"}, "image": UEFI},
    "sev by image": {"image": {**UEFI, "hw_mem_encryption": "true"}},
    "sev-es": {"specs": encrypted("amd-sev-es"), "image": UEFI},
    "sev-snp": {"specs": encrypted("amd-sev-snp"), "image": STATELESS},
    "tdx": {"specs": encrypted("intel-tdx"), "image": {**STATELESS, "hw_video_model": "none"}},
    "device profile": {"specs": {"accel:device_profile": "fpga"}},
    "share": {"shares": 1},
    "pci alias": {"specs": GPU},
    "pci alias, conf": {"specs": GPU, "aliases": [ALIAS]},
    "pci alias live_migratable, conf": {
        "specs": GPU,
        "aliases": [{**ALIAS, "live_migratable": "yes"}],
    },
    "pci alias live_migratable=no, conf": {
        "specs": GPU,
        "aliases": [{**ALIAS, "live_migratable": "no"}],
    },
    **{
        f"port {kind}": port(kind)
        for kind in (
            *("normal", "direct", "direct-physical", "macvtap", "vdpa", "remote-managed"),
            *("virtio-forwarder", "accelerator-direct", "accelerator-direct-physical"),
        )
    },
    **{
        f"port {kind} with request": port(kind, request=True)
        for kind in ("normal", "direct", "macvtap", "direct-physical")
    },
    "two ports, one accelerator-direct": {
        "ports": [{"vnic_type": "normal"}, {"vnic_type": "accelerator-direct"}]
    },
}
#: The first release that has such servers.
SINCE = {"sev-es": 32, "sev-snp": 34, "tdx": 34, "share": 32}

MOVES = ("live-migrate", "cold-migrate", "evacuate", "shelve", "shelve-offload", "unshelve", "stop")
#: What nova refuses; every other way of these servers, and every other server, is accepted.
REFUSED: Mapping[tuple[str, ...], Mapping[str, Expected]] = {
    (
        *("vtpm by flavor", "vtpm by image", "vtpm 1.2 by image", "vtpm, secret user"),
        *("vtpm, secret deployment", "vtpm by image, image deleted"),
    ): dict.fromkeys(("live-migrate", "evacuate", "shelve"), VTPM),
    ("vtpm, secret host", "vtpm by image, secret host"): {
        "live-migrate": {27: VTPM, 34: OK},
        "evacuate": VTPM,
        "shelve": VTPM,
    },
    ("sev by flavor", "sev by image", "sev-es", "sev-snp", "tdx"): {
        "live-migrate": {27: SEV, 34: MEMORY}
    },
    ("device profile",): dict.fromkeys(("live-migrate", "cold-migrate"), PROFILE),
    ("share",): {
        **dict.fromkeys(("live-migrate", "evacuate", "shelve"), SHARE),
        "cold-migrate": {32: SHARE, 34: OK},
    },
    ("pci alias", "pci alias, conf", "pci alias live_migratable=no, conf"): {
        "live-migrate": DEVICE
    },
    ("pci alias live_migratable, conf",): {"live-migrate": {27: DEVICE, 32: OK}},
    (
        *("port accelerator-direct", "port accelerator-direct-physical"),
        "two ports, one accelerator-direct",
    ): dict.fromkeys(
        ("live-migrate", "cold-migrate", "evacuate", "shelve", "shelve-offload"), PORTS
    ),
}

LARGER: Case = {"vcpus": 8}
FLAVORS: Mapping[str, Case] = {
    "disabled": {"disabled": True},
    "disk 0": {"root_gb": 0},
    "smaller disk": {"root_gb": 10},
    "smaller disk, as at the boot": {"root_gb": 10},
    "drops vtpm": {},
    "pinned": {"specs": {"hw:cpu_policy": "dedicated"}},
    "to vtpm deployment": {"specs": tpm_secret("deployment")},
    "to vtpm host": {"specs": tpm_secret("host")},
    "with device profile": {"specs": {"accel:device_profile": "fpga"}},
    "same": {"same": True},
    "larger": LARGER,
}
_SECRET: Expected = {27: OK, 34: VTPM}
#: ``{flavor: {server: answer}}``; the empty name is that of the others.
RESIZED: Mapping[str, Mapping[str, Expected]] = {
    "disabled": {"": "FlavorNotFound"},
    "disk 0": {"": "CannotResizeDisk", "volume": OK},
    "smaller disk": {"": "FlavorDiskSmallerThanMinDisk", "volume": OK},
    # Nova-compute decides about it.
    "smaller disk, as at the boot": {"": OK},
    "drops vtpm": {"": OK},
    "pinned": {"": OK},
    "to vtpm deployment": {"": OK, "vtpm by flavor": _SECRET, "vtpm, secret host": _SECRET},
    "to vtpm host": {"": OK, "vtpm, secret deployment": _SECRET},
    "with device profile": {"": PROFILE},
    "same": {"": "CannotResizeToSameFlavor"},
}
RESIZED_SERVERS = (
    *("plain", "volume", "vtpm by flavor", "vtpm, secret deployment", "vtpm, secret host"),
)
#: Some contradictions of a flavor and an image: nova 27 and 34 answer 500.
BROKEN = "NotImplementedError"
#: To a larger flavor.
LARGER_REFUSED: Mapping[str, Expected] = {
    "sev by image": {27: BROKEN, 29: OK},
    "device profile": PROFILE,
    "share": {32: SHARE, 34: OK},
    "port accelerator-direct": PORTS,
    "port accelerator-direct-physical": PORTS,
    "two ports, one accelerator-direct": PORTS,
}

NOWHERE: Case = {"on_host": False}
#: ``{state: (server, answers in the order of MOVES)}``.
STATES: Mapping[str, tuple[Case, Sequence[str]]] = {
    "active": ({}, (OK, OK, OK, OK, STATE, STATE, OK)),
    "paused": (
        {"vm_state": "paused", "power_state": 3},
        (OK, STATE, STATE, OK, STATE, STATE, STATE),
    ),
    "stopped": (
        {"vm_state": "stopped", "power_state": 4},
        (STATE, OK, OK, OK, STATE, STATE, STATE),
    ),
    "suspended": (
        {"vm_state": "suspended", "power_state": 4},
        (STATE, STATE, STATE, OK, STATE, STATE, STATE),
    ),
    **{
        state: ({"vm_state": state}, (STATE,) * len(MOVES))
        for state in ("rescued", "building", "resized", "soft-delete")
    },
    "error": ({"vm_state": "error"}, (STATE, STATE, OK, STATE, STATE, STATE, OK)),
    "error, off": (
        {"vm_state": "error", "power_state": 4},
        (STATE, STATE, OK, STATE, STATE, STATE, OK),
    ),
    "error, never launched": (
        {"vm_state": "error", "power_state": 0, "launched": False, **NOWHERE},
        (STATE, STATE, "HTTPBadRequest", STATE, STATE, STATE, READY),
    ),
    "shelved": ({"vm_state": "shelved"}, (STATE, STATE, STATE, STATE, OK, OK, STATE)),
    "shelved_offloaded": (
        {"vm_state": "shelved_offloaded", "power_state": 4, **NOWHERE},
        (STATE, STATE, "HTTPBadRequest", STATE, STATE, OK, READY),
    ),
    **{
        f"active, power {power}": (
            {"power_state": power},
            (STATE, OK, OK, OK, STATE, STATE, OK),
        )
        for power in (0, 4, 6, 7)
    },
    **{
        f"{state}, {task}": (
            {"vm_state": state, "task_state": task},
            (STATE, STATE, OK, STATE, STATE, STATE, STATE),
        )
        for state, task in (
            *(("active", "migrating"), ("active", "resize_prep"), ("active", "rebuilding")),
            *(("active", "powering-off"), ("active", "deleting"), ("active", "image_snapshot")),
            *(("active", "rebooting"), ("active", "suspending"), ("active", "shelving")),
            *(("active", "spawning"), ("stopped", "powering-on"), ("error", "rebuilding")),
        )
    },
}
IN_USE, DOWN = (
    "ComputeServiceInUse",
    ("ComputeServiceUnavailable", "ServiceUnavailable", OK, OK, OK),
)
#: ``{state of the source's service: answers}`` in the order of the ways.
HOST_WAYS = ("live-migrate", "cold-migrate", "evacuate", "shelve", "stop")
SOURCES: Mapping[str, Sequence[str]] = {
    "up": (OK, OK, IN_USE, OK, OK),
    "disabled": (OK, OK, IN_USE, OK, OK),
    **dict.fromkeys(("down", "forced down", "disabled and down"), DOWN),
}
TARGETS: Mapping[tuple[str, str], str] = {
    ("live-migrate", "source"): "NoValidHost",
    ("cold-migrate", "source"): "CannotMigrateToSameHost",
    ("evacuate", "source"): "HTTPBadRequest",
    ("live-migrate", "unknown"): "ComputeHostNotFound",
    ("cold-migrate", "unknown"): "ComputeHostNotFound",
    ("evacuate", "unknown"): "HTTPNotFound",
    **{(way, "target"): OK for way in ("live-migrate", "cold-migrate", "evacuate")},
}

#: Beside the oldest nova-compute with which the release's nova-api starts.
BESIDE_OLDEST: Mapping[tuple[str, str], Expected] = {
    ("share", "live-migrate"): {32: SHARE},
    ("share", "cold-migrate"): {32: SHARE},
    ("share", "resize"): {32: SHARE},
    ("share", "shelve"): {32: SHARE},
    ("port vdpa", "live-migrate"): {27: "OperationNotSupportedForVDPAInterface", 29: OK},
    ("vtpm, secret host", "live-migrate"): {27: VTPM, 34: OK},
    ("plain", "live-migrate"): OK,
    ("plain", "resize"): OK,
}


def at(expected: Expected, release: int) -> str:
    """What nova says in a release."""
    if isinstance(expected, str):
        return expected
    return expected[max(since for since in expected if since <= release)]


def said(answer: Mapping[str, Any]) -> str:
    """``ok``, or the class of the refusal."""
    return OK if answer.get("ok") else answer.get("refused") or str(answer)


def prepared(way: str, server: Case) -> Case:
    """The server in the state in which the way is possible."""
    places: Mapping[str, Case] = {
        "evacuate": {"host_status": "down"},
        "shelve-offload": {"vm_state": "shelved"},
        "unshelve": {"vm_state": "shelved_offloaded", **NOWHERE},
    }
    return {"way": way, **places.get(way, {}), **server}


#: A question and the answer of a release, by a name for the text of a failure.
Row = tuple[str, Case, Expected]


def server_rows() -> Iterator[Row]:
    for name, server in SERVERS.items():
        refusals = next((ways for names, ways in REFUSED.items() if name in names), {})
        for way in MOVES:
            yield f"{name}: {way}", prepared(way, server), refusals.get(way, OK)


def resize_rows() -> Iterator[Row]:
    for flavor, answers in RESIZED.items():
        for name in RESIZED_SERVERS:
            boot = {"boot_disk": 10} if flavor == "smaller disk, as at the boot" else {}
            question = {"way": "resize", "new_flavor": FLAVORS[flavor], **boot, **SERVERS[name]}
            yield f"{name}: resize, {flavor}", question, answers.get(name, answers[""])
    for name, expected in LARGER_REFUSED.items():
        yield f"{name}: resize", {"way": "resize", "new_flavor": LARGER, **SERVERS[name]}, expected


def state_rows() -> Iterator[Row]:
    for name, (server, answers) in STATES.items():
        for way, expected in zip(MOVES, answers, strict=True):
            status = "down" if way == "evacuate" else "up"
            yield f"{name}: {way}", {"way": way, "host_status": status, **server}, expected


def host_rows() -> Iterator[Row]:
    for status, answers in SOURCES.items():
        for way, expected in zip(HOST_WAYS, answers, strict=True):
            yield f"source {status}: {way}", {"way": way, "host_status": status}, expected
    for (way, target), expected in TARGETS.items():
        yield f"{way} to {target}", {**prepared(way, {}), "target": target}, expected


def oldest_rows(oldest: int) -> Iterator[Row]:
    for (name, way), expected in BESIDE_OLDEST.items():
        question = {"way": way, "least_version": oldest, "new_flavor": LARGER, **SERVERS[name]}
        yield f"{name}: {way}", question, expected


def differences(release: int, rows: Iterator[Row]) -> list[tuple[str, str, str]]:
    """``(name, what is expected, what nova says)`` of the rows that differ."""
    newer = [row for row in rows if SINCE.get(row[0].partition(": ")[0], 0) <= release]
    answers = ask(release, [question for _, question, _ in newer])
    return [
        (name, at(expected, release), json.dumps(answer))
        for (name, _, expected), answer in zip(newer, answers, strict=True)
        if said(answer) != at(expected, release)
    ]


NEWEST = RELEASES[-1]
each_release = pytest.mark.parametrize(
    "release",
    [
        release if release == NEWEST else pytest.param(release, marks=pytest.mark.long)
        for release in RELEASES
    ],
)


@each_release
def test_nova_accepts_and_refuses_what_the_tables_say(release: int) -> None:
    oldest = words(release)["oldest"]
    tables = (server_rows(), resize_rows(), state_rows(), host_rows(), oldest_rows(oldest))
    assert differences(release, itertools.chain(*tables)) == []


#: How often a property that many rules ask about differs from the plain server's.
CHANCE = 0.15
SPECS: tuple[Mapping[str, str], ...] = (
    *(TPM, tpm_secret("user"), tpm_secret("host"), tpm_secret("deployment"), GPU, GPU),
    {"hw:tpm_secret_security": "host"},
    {"hw:mem_encryption": "true"},
    {"hw:mem_encryption": "false"},
    {"accel:device_profile": "fpga"},
    {"hw:cpu_policy": "dedicated"},
    {"hw:numa_nodes": "2"},
    {"hw:mem_page_size": "large"},
)
IMAGES: tuple[Mapping[str, str], ...] = (
    {"hw_tpm_version": "2.0"},
    {"hw_tpm_version": "1.2", "hw_tpm_model": "tpm-tis"},
    {"hw_mem_encryption": "true"},
    {"os_secure_boot": "required"},
    {},
)
#: Nova accepts encrypted memory of each model with this image.
ANY_MODEL = {**STATELESS, "hw_video_model": "none"}
ALIASES = (
    [],
    [ALIAS],
    [{**ALIAS, "live_migratable": "yes"}],
    [{**ALIAS, "live_migratable": "no"}],
)
STATUSES = ("up", "down", "disabled", "forced down", "disabled and down")


def cases(seed: int, number: int, known: Mapping[str, Any]) -> Iterator[Case]:
    """Random servers and ways, of nova's own names (``words``)."""
    draw = random.Random(seed)
    for _ in range(number):
        way = draw.choice(known["ways"])
        yield {"way": way, **draw_server(draw, known, way), **draw_cloud(draw, known, way)}


def draw_server(draw: random.Random, known: Mapping[str, Any], way: str) -> Case:
    """What the server is; mostly in a state in which the way can be possible."""
    usual = {"unshelve": "shelved_offloaded", "shelve-offload": "shelved"}.get(way, "active")
    state = draw.choice(known["vm_states"]) if draw.random() < CHANCE else usual
    task = draw.choice(known["task_states"]) if draw.random() < CHANCE / 2 else None
    power = draw.choice(list(known["power_states"].values())) if draw.random() < CHANCE else 1
    is_nowhere = state == "shelved_offloaded" or (state == "error" and draw.random() < 0.3)
    models = [encrypted(model) for model in known["encryption_models"]]
    specs = draw.choice((*SPECS, *models)) if draw.random() < 3 * CHANCE else {}
    image = draw.choice(IMAGES) if draw.random() < 2 * CHANCE else {}
    if "hw:mem_encryption" in specs:
        # The flavor and the image must not contradict each other.
        image = {}
    return {
        "specs": specs,
        "image": {**ANY_MODEL, **image},
        "boot_disk": draw.choice((None, None, 10)),
        "volume": draw.random() < CHANCE,
        "vm_state": state,
        "task_state": task,
        "power_state": power,
        "on_host": not is_nowhere,
        "launched": not (is_nowhere and state == "error"),
        "locked": draw.random() < CHANCE,
        "ports": draw_ports(draw, known),
        "shares": int(draw.random() < CHANCE / 2),
    }


def draw_ports(draw: random.Random, known: Mapping[str, Any]) -> list[Case]:
    if draw.random() < 2 * CHANCE:
        return [
            {"vnic_type": draw.choice(known["vnic_types"]), "request": draw.random() < CHANCE}
            for _ in range(draw.choice((1, 1, 2)))
        ]
    return []


def draw_cloud(draw: random.Random, known: Mapping[str, Any], way: str) -> Case:
    """The hosts, nova.conf, and what the way asks for."""
    usual = "down" if way == "evacuate" else "up"
    targets = (None, None, "target", "target", "source", "unknown")
    places: Case = {}
    if way in ("live-migrate", "cold-migrate", "evacuate", "unshelve", "boot"):
        places["target"] = draw.choice(targets)
    if way in ("unshelve", "boot") and draw.random() < CHANCE:
        places["zone"] = draw.choice(("zone-a", "nova", "unknown"))
    new = {**draw.choice(({}, *SPECS)), "hw:rng": "1"} if way == "resize" else {}
    return {
        **places,
        "aliases": draw.choice(ALIASES),
        "host_status": draw.choice(STATUSES) if draw.random() < CHANCE else usual,
        "target_status": draw.choice(STATUSES) if draw.random() < CHANCE else "up",
        "least_version": draw.choice((None, None, known["oldest"])),
        "new_flavor": {
            "specs": new,
            "root_gb": draw.choice((20, 20, 20, 40, 10, 0)),
            "disabled": draw.random() < CHANCE / 2,
            "same": draw.random() < CHANCE / 2,
        },
    }


def drawn(release: int, seed: int, number: int = MANY) -> list[tuple[Case, dict[str, Any]]]:
    """Random servers and ways, each with nova's answer: what rules can be compared with."""
    questions = list(cases(seed, number, words(release)))
    return list(zip(questions, ask(release, questions), strict=True))


#: Every answer about a random server; another one would be a fault of this lab.
ANSWERS = {
    *(OK, VTPM, SHARE, SEV, MEMORY, PROFILE, PORTS, DEVICE, STATE, READY, *DOWN, IN_USE),
    *("FlavorNotFound", "CannotResizeDisk", "FlavorDiskSmallerThanMinDisk", "NoValidHost"),
    *("CannotResizeToSameFlavor", "CannotMigrateToSameHost", "ComputeHostNotFound"),
    *("HTTPBadRequest", "HTTPNotFound", "OperationNotSupportedForVDPAInterface"),
    *("UnshelveHostNotInAZ", "UnshelveInstanceInvalidState", "InvalidRequest"),
    *(BROKEN, "FlavorImageConflict", "PciRequestAliasNotDefined", "PciInvalidAlias"),
}


@each_release
def test_nova_answers_about_random_servers(release: int) -> None:
    pairs = drawn(release, seed=release)
    counts = collections.Counter((answer.get("stage"), said(answer)) for _, answer in pairs)
    print(release, counts.most_common())
    stages = {stage for stage, _ in counts}
    assert stages == {None, "api", "conductor", "scheduler", "target"}
    assert {reason for _, reason in counts} <= ANSWERS
