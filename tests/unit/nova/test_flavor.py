# SPDX-License-Identifier: Apache-2.0
"""The request of a server, and flavors that nova refuses; lab/tests compares both with nova."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.model import candidate
from osc_placement.nova import flavor, flavors, topology

USUAL = {"VCPU": 4, "MEMORY_MB": 2048, "DISK_GB": 20}
OTHERS = {"MEMORY_MB": 2048, "DISK_GB": 20}


def request(
    specs: Mapping[str, str] | None = None,
    image: Mapping[str, str] | None = None,
    *,
    hidden: bool = False,
    volume: bool = False,
    **amounts: int,
) -> flavor.ServerRequest:
    usual = {"vcpus": 4, "ram": 2048, "disk": 20, **amounts}
    requested = flavor.Flavor(**usual, extra_specs=specs or {})
    return flavor.request_of(requested, None if hidden else image or {}, booted_from_volume=volume)


def total(*properties: Mapping[str, str], **amounts: int) -> dict[str, int]:
    """Of extra specs and an image."""
    return request(*properties, **amounts).total()


def test_a_flavor_sets_the_standard_amounts() -> None:
    assert total() == USUAL


@pytest.mark.parametrize(
    ("swap", "disk"), [(0, 30), (1, 31), (1024, 31), (1025, 32), (1500, 32), (2048, 32)]
)
def test_swap_is_rounded_up_and_added_to_the_disks(swap: int, disk: int) -> None:
    assert total(ephemeral=10, swap=swap)["DISK_GB"] == disk


def test_a_root_disk_on_a_volume_takes_no_disk_of_the_host() -> None:
    assert total(ephemeral=10, swap=1500, volume=True)["DISK_GB"] == 12


def test_zero_amounts_are_not_allocated() -> None:
    assert total(volume=True) == {"VCPU": 4, "MEMORY_MB": 2048}


@pytest.mark.parametrize(
    ("specs", "cpus"),
    [
        ({"hw:cpu_policy": "shared"}, {"VCPU": 4}),
        ({"hw:cpu_policy": "dedicated"}, {"PCPU": 4}),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "2-3"}, {"PCPU": 2, "VCPU": 2}),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0"}, {"PCPU": 3, "VCPU": 1}),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-3,^2-3"}, {"PCPU": 2, "VCPU": 2}),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"},
            {"PCPU": 3, "VCPU": 1},
        ),
        ({"hw:cpu_dedicated_mask": "2-3"}, {"VCPU": 4}),
        ({"resources:PCPU": "2"}, {"PCPU": 2}),
        ({"resources:PCPU": "2", "resources:VCPU": "1"}, {"PCPU": 2, "VCPU": 1}),
        ({"resources:VCPU": "2", "hw:cpu_policy": "dedicated"}, {"PCPU": 4, "VCPU": 2}),
        ({"resources:PCPU": "2", "hw:cpu_policy": "dedicated"}, {"PCPU": 4}),
    ],
)
def test_a_flavor_pins_cpus(specs: Mapping[str, str], cpus: Mapping[str, int]) -> None:
    assert total(specs) == {**cpus, **OTHERS}


def test_isolated_emulator_threads_take_another_pinned_cpu() -> None:
    isolate = {"hw:emulator_threads_policy": "isolate"}
    assert total({**isolate, "hw:cpu_policy": "dedicated"})["PCPU"] == 5
    mixed = {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "2-3"}
    assert total({**isolate, **mixed}) == {"PCPU": 3, "VCPU": 2, **OTHERS}
    assert total(isolate) == USUAL


def test_an_image_pins_cpus_if_the_flavor_has_no_policy() -> None:
    pinned = {"hw_cpu_policy": "dedicated"}
    assert total({}, pinned) == {"PCPU": 4, **OTHERS}
    assert total({"hw:emulator_threads_policy": "isolate"}, pinned)["PCPU"] == 5
    assert total({"hw:cpu_policy": "dedicated"}, {"hw_cpu_policy": "shared"})["PCPU"] == 4


@pytest.mark.parametrize(
    ("specs", "image"),
    [
        ({"hw:cpu_policy": "shared"}, {"hw_cpu_policy": "dedicated"}),
        ({"hw:cpu_policy": "odd"}, {}),
        ({}, {"hw_cpu_policy": "odd"}),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-3"}, {}),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "3-1"}, {}),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "7"}, {}),
        ({"hw:cpu_policy": "mixed", "hw:cpu_realtime": "yes"}, {}),
        ({"hw:emulator_threads_policy": "odd"}, {}),
    ],
)
def test_a_refused_flavor_is_unknown(specs: Mapping[str, str], image: Mapping[str, str]) -> None:
    (reason,) = request(specs, image).unknown
    assert "policy" in reason or "mask" in reason or "realtime" in reason


def test_extra_specs_override_and_remove() -> None:
    specs = {"resources:VCPU": "2", "resources:DISK_GB": "0", "resources:CUSTOM_X": "1"}
    assert total(specs) == {"VCPU": 2, "MEMORY_MB": 2048, "CUSTOM_X": 1}
    only = {"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0"}
    assert total({**only, "resources:CUSTOM_BAREMETAL_GOLD": "1"}) == {"CUSTOM_BAREMETAL_GOLD": 1}
    assert request(only).groups == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("resources:VCPU", "many"),
        ("resources:VCPU", "-1"),
        ("resources:VCPU", "1.5"),
        ("resources:NONSENSE", "1"),
        ("resources.a:VGPU", "1"),
        (f"resources{'a' * 65}:VGPU", "1"),
        ("quota:cpu_shares", "1"),
    ],
)
def test_ignored_extra_specs_are_ignored(key: str, value: str) -> None:
    assert total({key: value}) == USUAL


def test_each_suffix_is_a_request_group() -> None:
    server_request = request(
        {
            "resources1:VGPU": "1",
            "trait1:CUSTOM_A": "required",
            "trait1:CUSTOM_B": "forbidden",
            "resources_NET:CUSTOM_VF": "2",
            "trait:CUSTOM_C": "required",
            "trait_NONE:CUSTOM_D": "required",
            "group_policy": "isolate",
        }
    )
    traits = ((frozenset({"CUSTOM_A"}),), frozenset({"CUSTOM_B"}))
    assert server_request == flavor.ServerRequest(
        {
            "": candidate.RequestGroup("", USUAL, (frozenset({"CUSTOM_C"}),)),
            "1": candidate.RequestGroup("1", {"VGPU": 1}, *traits),
            "_NET": candidate.RequestGroup("_NET", {"CUSTOM_VF": 2}),
        },
        isolate=True,
    )
    assert server_request.is_granular
    assert server_request.total() == {**USUAL, "VGPU": 1, "CUSTOM_VF": 2}


def test_a_class_in_any_group_replaces_the_flavors_amount() -> None:
    groups = request({"resources1:VCPU": "3", "resources2:DISK_GB": "0"}).groups
    assert {suffix: group.resources for suffix, group in groups.items()} == {
        "": {"MEMORY_MB": 2048},
        "1": {"VCPU": 3},
    }


def test_a_query_is_for_one_tree_without_traits_of_the_unsuffixed_group() -> None:
    specs = {"trait:CUSTOM_C": "required", "resources1:VGPU": "1", "trait1:CUSTOM_A": "required"}
    assert request(specs).query("root") == candidate.CandidateQuery(
        (
            candidate.RequestGroup("", USUAL, in_tree="root"),
            candidate.RequestGroup("1", {"VGPU": 1}, (frozenset({"CUSTOM_A"}),), in_tree="root"),
        )
    )


def test_encrypted_memory_needs_a_context() -> None:
    context = {"MEM_ENCRYPTION_CONTEXT": 1}
    assert total({"hw:mem_encryption": "true"}) == {**USUAL, **context}
    assert total({}, {"hw_mem_encryption": "Yes"}) == {**USUAL, **context}
    assert total({"hw:mem_encryption": "false"}) == USUAL


def test_persistent_memory_needs_namespaces_by_label() -> None:
    found = total({"hw:pmem": "6gb, small-one,6GB"})
    assert found == {**USUAL, "CUSTOM_PMEM_NAMESPACE_6GB": 2, "CUSTOM_PMEM_NAMESPACE_SMALL_ONE": 1}


def test_a_device_profile_is_unknown_and_a_pci_alias_depends_on_the_host() -> None:
    assert request({"accel:device_profile": "dp1"}).unknown == (
        "only Cyborg knows the resources of the device profile dp1",
    )
    server_request = request({"pci_passthrough:alias": "a1:2, b1:1"})
    assert (server_request.pci_aliases, server_request.unknown) == (("a1", "b1"), ())


def test_a_hidden_image_leaves_classes_undecided() -> None:
    assert set(request(hidden=True).undecided) == {"PCPU", "MEM_ENCRYPTION_CONTEXT"}
    assert request(hidden=True).total() == USUAL
    decided = {"hw:cpu_policy": "dedicated", "hw:mem_encryption": "false"}
    assert request(decided, hidden=True).undecided == {}
    realtime = {**decided, "hw:cpu_policy": "mixed", "hw:cpu_realtime": "yes"}
    realtime["hw:cpu_realtime_mask"] = "^0"
    assert set(request(realtime, hidden=True).undecided) == {"PCPU"}


def glance(status: int, text: str) -> flavors.SessionGlance:
    """Glance behind a connection that answers every request with this text."""
    response = types.SimpleNamespace(
        status_code=status, reason="Not Found", headers={}, content=text.encode()
    )
    image = types.SimpleNamespace(request=lambda path, method, **options: response)
    return flavors.SessionGlance(types.SimpleNamespace(image=image))


@pytest.mark.parametrize(
    ("status", "text", "message"),
    [
        (404, "{}", "glance, GET /images/x: Not Found"),
        (200, "<html>", "glance, GET /images/x: the response is not JSON"),
    ],
)
def test_errors_of_glance_name_the_request(status: int, text: str, message: str) -> None:
    with pytest.raises(flavors.GlanceRefused, match=message):
        glance(status, text).ask("/images/x")


def test_an_answer_of_glance_is_parsed() -> None:
    body: Any = {"images": []}
    assert glance(200, json.dumps(body)).ask("/images") == body


@pytest.mark.parametrize(
    "image",
    [{}, {"id": 5}, {"id": None}, {"id": ["a"]}, {"id": "a", "name": 5}]
    + [{"id": "a", "disk_format": wrong} for wrong in (1.5, ["raw"], {"raw": 1})],
)
def test_an_image_with_a_field_of_another_type_is_an_error_of_glance(image: object) -> None:
    text = "glance's response to /images lacks a field"
    with pytest.raises(errors.PlacementError, match=text):
        flavors.image(glance(200, json.dumps(image)), "x")
    with pytest.raises(errors.PlacementError, match=text):
        flavors.images(glance(200, json.dumps({"images": [image]})))


def refused(specs: Mapping[str, str], image: Mapping[str, str] | None = None) -> str:
    return "; ".join(topology.refusals(4, 2048, specs, image or {}))


NODES = {"hw:numa_cpus.0": "0-1", "hw:numa_cpus.1": "2-3"}


@pytest.mark.parametrize(
    ("specs", "image", "reason"),
    [
        ({"resources:VCPU": "4", "hw:cpu_policy": "shared"}, {}, "not allowed with a CPU policy"),
        ({"resources:PCPU": "2"}, {}, "is not the flavor's 4 vcpus"),
        ({"resources:PCPU": "4", "resources1:VCPU": "1"}, {}, "exclude each other"),
        ({"hw:cpu_policy": "mixed"}, {}, "needs hw:cpu_dedicated_mask"),
        ({"hw:cpu_dedicated_mask": "1"}, {}, "needs hw:cpu_policy=mixed"),
        ({"hw:emulator_threads_policy": "isolate"}, {}, "needs a dedicated CPU policy"),
        ({"hw:cpu_thread_policy": "prefer"}, {}, "needs a dedicated CPU policy"),
        ({"hw:cpu_realtime": "yes", "hw:cpu_policy": "dedicated"}, {}, "needs a realtime CPU"),
        ({"hw:numa_nodes": "3"}, {}, "do not divide by 3 NUMA nodes"),
        ({"hw:numa_nodes": "2", **NODES}, {}, "not set for all 2 NUMA nodes"),
        (
            {"hw:numa_nodes": "2", "hw:numa_mem.0": "1024", "hw:numa_mem.1": "1000", **NODES},
            {},
            "have 2024 of 2048 MiB",
        ),
        ({"hw:numa_nodes": "2"}, {"hw_numa_nodes": "2"}, "forbids the image's"),
        ({"hw:mem_page_size": "1b", "hw:numa_cpus.0": "7"}, {}, "not set for all 1 NUMA"),
        ({"hw:mem_page_size": "0.5KB", "hw:numa_cpus.0": "7"}, {}, "not set for all 1 NUMA"),
        ({"hw:locked_memory": "true"}, {}, "needs hw:mem_page_size"),
        ({"hw:mem_page_size": "4kB"}, {}, "is not a page size"),
        ({"hw:mem_page_size": "small"}, {"hw_mem_page_size": "2MB"}, "large or any"),
        ({"hw:cpu_max_sockets": "2"}, {"hw_cpu_max_sockets": "3"}, "exceeds hw:cpu_max_sockets=2"),
        ({"hw:cpu_max_cores": "2"}, {"hw_cpu_cores": "3"}, "exceeds 2"),
        ({"hw:pmu": "true"}, {"hw_pmu": "false"}, "contradicts"),
    ],
)
def test_a_contradiction_is_named(
    specs: Mapping[str, str], image: Mapping[str, str], reason: str
) -> None:
    assert reason in refused(specs, image)


@pytest.mark.parametrize(
    ("specs", "image"),
    [
        ({}, {}),
        ({"resources:PCPU": "4"}, {}),
        # A page size of zero gives the guest no NUMA node.
        *(({"hw:mem_page_size": size, "hw:numa_cpus.0": "7"}, {}) for size in ("0", "0MB", "00b")),
        ({"hw:mem_page_size": "any", "hw:numa_cpus.0": "7"}, {"hw_mem_page_size": "0"}),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "1"}, {}),
        ({"hw:emulator_threads_policy": "isolate"}, {"hw_cpu_policy": "dedicated"}),
        ({"hw:cpu_realtime": "1", "hw:cpu_realtime_mask": "^0", "hw:cpu_policy": "dedicated"}, {}),
        ({"hw:numa_nodes": "2"}, {}),
        ({"hw:numa_nodes": "2", "hw:numa_mem.0": "1024", "hw:numa_mem.1": "1024", **NODES}, {}),
        ({"hw:locked_memory": "true", "hw:mem_page_size": "1GB"}, {}),
        ({"hw:mem_page_size": "any"}, {"hw_mem_page_size": "2MB"}),
    ],
)
def test_what_nova_accepts_is_not_refused(
    specs: Mapping[str, str], image: Mapping[str, str]
) -> None:
    assert refused(specs, image) == ""
