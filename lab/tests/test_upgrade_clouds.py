# SPDX-License-Identifier: Apache-2.0
"""What ``placement upgrade check`` says of random servers, held against nova and Placement.

The queries of both releases are those that nova's scheduler sends, all of them; the hosts are those
of openstack-placement's answers: with the traits of now, and with those that the new nova-compute
writes. ``OSC_PLACEMENT_LAB_CASES`` is the number of clouds.
"""

from __future__ import annotations

import collections
import itertools
import os
import random
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from lab.tests import test_api_refusals as nova
from osc_placement.nova import flavor
from osc_placement.scheduling import nova_options, releases, request, traits
from osc_placement.scheduling.case import Facts
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import source
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.host_verdicts import HostVerdicts
from osc_placement.workflows.health import upgrade_checks, upgrade_requests
from osc_placement.workflows.health.upgrade_requests import ReleaseStep, Workload
from tests.support.peer.fixtures import real_placement  # noqa: F401
from tests.support.peer.target import RealPlacement

pytestmark = [pytest.mark.interop, pytest.mark.timeout(3600)]

CASES = int(os.environ.get("OSC_PLACEMENT_LAB_CASES", "300"))
UUID = "00000000-0000-4000-8000-{:012}"
CUSTOM = "CUSTOM_A"
COMMON = {"MEMORY_MB": 8192, "DISK_GB": 100}
HOSTS: Sequence[Mapping[str, int]] = (
    {"VCPU": 8, **COMMON},
    {"PCPU": 8, **COMMON},
    {"VCPU": 8, "PCPU": 8, "MEM_ENCRYPTION_CONTEXT": 4, **COMMON},
    {"VCPU": 8, "MEM_ENCRYPTION_CONTEXT": 4, **COMMON},
)
#: What hosts may have now: what all rules ask for.
TRAITS = sorted({
    *releases.REQUIRED_SINCE, CUSTOM, "COMPUTE_SECURITY_TPM_1_2", "COMPUTE_SECURITY_TPM_2_0",
    "HW_CPU_HYPERTHREADING", "COMPUTE_SECURITY_UEFI_SECURE_BOOT",
})  # fmt: skip
SPECS = {
    "hw:cpu_policy": ("dedicated", "shared"),
    "hw:cpu_thread_policy": ("require", "isolate"),
    "hw:tpm_version": ("1.2", "2.0"),
    "hw:tpm_model": ("tpm-tis", "tpm-crb"),
    "hw:tpm_secret_security": ("user", "host", "deployment", "all"),
    "hw:virtio_packed_ring": ("true", "false"),
    "hw:sound_model": ("virtio", "ich9"),
    "hw:maxphysaddr_mode": ("emulate", "passthrough"),
    "hw:mem_encryption": ("true", "false"),
    "hw:mem_encryption_model": ("amd-sev", "amd-sev-es", "amd-sev-snp", "bogus"),
    "trait:CUSTOM_A": ("required", "forbidden"),
    "os:secure_boot": ("required",),
}
IMAGE = {
    "hw_firmware_type": ("uefi", "uefi", "bios"),
    "hw_machine_type": ("q35", "pc"),
    "hw_firmware_stateless": ("true",),
    "hw_tpm_version": ("2.0",),
    "hw_virtio_packed_ring": ("true",),
    "hw_sound_model": ("virtio",),
    "hw_cpu_policy": ("dedicated",),
    "hw_vif_model": ("igb", "virtio"),
    "hw_mem_encryption": ("true",),
}


def drawn(draw: random.Random, words: Mapping[str, Sequence[str]], share: float) -> dict[str, str]:
    return {key: draw.choice(values) for key, values in words.items() if draw.random() < share}


def put_traits(placement: RealPlacement, by_host: Iterable[Iterable[str]]) -> None:
    for number, names in enumerate(by_host):
        path = f"/resource_providers/{UUID.format(number)}"
        body = {
            "traits": sorted(set(names)),
            "resource_provider_generation": placement.ask("GET", path)["generation"],
        }
        placement.ask("PUT", f"{path}/traits", body)


def hosts_of(placement: RealPlacement, queries: Iterable[str]) -> set[str]:
    """The hosts of Placement's answers to nova's queries."""
    hosts = set()
    for text in queries:
        pairs = [pair for pair in urllib.parse.parse_qsl(text) if pair[0] != "limit"]
        url = f"/allocation_candidates?{urllib.parse.urlencode(pairs)}"
        hosts |= placement.ask("GET", url)["provider_summaries"].keys()
    return hosts


def expected(
    placement: RealPlacement,
    step: ReleaseStep,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    now: Sequence[Iterable[str]],
) -> str:
    """The result that follows from nova's queries and Placement's answers; empty for no row."""
    # A server that nova refuses asks nothing.
    if not old["queries"]:
        return ""
    if not new["queries"]:
        return "failure"
    put_traits(placement, now)
    before = hosts_of(placement, old["queries"])
    put_traits(placement, [{*names, traits.OWNER} for names in now])
    meanwhile = hosts_of(placement, new["queries"])
    written = releases.new_traits(step.old, step.new)
    put_traits(placement, [{*names, *written} for names in now])
    after = before & hosts_of(placement, new["queries"])
    put_traits(placement, now)
    if before and not after:
        return "failure"
    return "warning" if after < before or (after and not meanwhile & after) else "success"


def said(
    placement: RealPlacement, step: ReleaseStep, specs: Mapping[str, str], image: Mapping[str, str]
) -> str:
    """The result of the row."""
    spec = request.ServerSpec(flavor.Flavor(2, 2048, 20, 0, 0, specs), "f", image=image)
    compute = ServerHosts()
    workloads = [Workload("flavor f", spec, ("flavor f",))]
    pairs = upgrade_requests.pairs(workloads, Facts(), compute, (), step)
    if not pairs:
        return ""
    queries = [query for pair in pairs for query in pair.queries()]
    with source.of(placement.client(), ReadContext(workers=1)).observed(queries) as observed:
        observed.refine(None)
    verdicts = HostVerdicts(observed.base, compute)
    changes = [upgrade_requests.compare(observed.base, pair, step, verdicts) for pair in pairs]
    return str(upgrade_checks.workloads(changes, {}, "flavor").result)


def test_a_row_is_what_nova_and_placement_answer(real_placement: RealPlacement) -> None:  # noqa: F811
    placement = real_placement
    placement.reset()
    placement.ask("PUT", f"/traits/{CUSTOM}")
    for number, offered in enumerate(HOSTS):
        uuid = UUID.format(number)
        placement.ask("POST", "/resource_providers", {"name": f"h{number}", "uuid": uuid})
        inventories = {name: {"total": total} for name, total in offered.items()}
        body = {"inventories": inventories, "resource_provider_generation": 0}
        placement.ask("PUT", f"/resource_providers/{uuid}/inventories", body)
    draw = random.Random(54)
    pairs = list(itertools.combinations(releases.NAMES, 2))
    cases = [
        (
            *pairs[number % len(pairs)],
            drawn(draw, SPECS, 0.15),
            drawn(draw, IMAGE, 0.12),
            [draw.sample(TRAITS, draw.randint(len(TRAITS) // 2, len(TRAITS))) for _ in HOSTS],
        )
        for number in range(CASES)
    ]
    asked: dict[int, list[int]] = collections.defaultdict(list)
    for number, (old, new, *_) in enumerate(cases):
        asked[old].append(number)
        asked[new].append(number)
    answers = {
        (release, number): answer
        for release, numbers in asked.items()
        for number, answer in zip(
            numbers,
            nova.ask(
                release,
                [{"way": "boot", "specs": cases[n][2], "image": cases[n][3]} for n in numbers],
            ),
            strict=True,
        )
    }
    counts: collections.Counter[str] = collections.Counter()
    differences = []
    for number, (old, new, specs, image, now) in enumerate(cases):
        step = ReleaseStep(old, new, nova_options.SchedulerOptions())
        theirs = expected(placement, step, answers[old, number], answers[new, number], now)
        ours = said(placement, step, specs, image)
        counts[theirs or "refused today"] += 1
        if ours != theirs:
            differences.append(f"{old} to {new}: {ours or 'no row'}, not {theirs}: {specs} {image}")
    print(f"{len(cases)} clouds, {dict(counts)}, {len(differences)} differ")
    assert not differences, "\n".join(differences)
    assert {"success", "warning", "failure"} <= counts.keys()
