# SPDX-License-Identifier: Apache-2.0
"""Nova's query for a server; lab/tests/test_request.py compares it with nova."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.client import query
from osc_placement.model import constraint
from osc_placement.model.candidate import RequestGroup
from osc_placement.neutron.api import Port
from osc_placement.nova import flavor
from osc_placement.nova.values import HostAggregate
from osc_placement.scheduling import nova_options, request, traits

ALWAYS = (
    "resources=VCPU:4,MEMORY_MB:2048,DISK_GB:20&root_required=!COMPUTE_STATUS_DISABLED&limit=1000"
)
AGGREGATES = (
    HostAggregate("1", "az1", "U-az1", metadata={"availability_zone": "az1"}),
    HostAggregate("2", "tenants", "U-tenants", metadata={"filter_tenant_id2": "acme"}),
    HostAggregate("3", "windows", "U-windows", metadata={"trait:CUSTOM_WIN": "required"}),
)


def spec(
    specs: Mapping[str, str] | None = None, image: Mapping[str, str] | None = None, **fields: Any
) -> request.ServerSpec:
    embedded = flavor.Flavor(4, 2048, 20, extra_specs=specs or {})
    return request.ServerSpec(embedded, "m1", {} if image is None else image, **fields)


def numa(*cpus: str) -> dict[str, str]:
    """Extra specs for NUMA nodes with these CPUs and 1024 MiB each."""
    nodes = {f"hw:numa_cpus.{number}": text for number, text in enumerate(cpus)}
    memory = {f"hw:numa_mem.{number}": "1024" for number in range(len(cpus))}
    return {"hw:numa_nodes": str(len(cpus)), **nodes, **memory}


def parameters(server: request.ServerSpec, **options: Any) -> str:
    nova_request = request.request_to_placement(
        server, AGGREGATES, nova_options.SchedulerOptions(**options)
    )
    return query.encode(query.candidate_pairs(nova_request.query)).removeprefix("?")


def test_a_plain_flavor_gives_resources_and_the_compute_status() -> None:
    assert parameters(spec()) == ALWAYS


def test_every_part_has_a_source_in_the_order_of_nova() -> None:
    server = spec(
        {"hw:cpu_policy": "dedicated", "trait:CUSTOM_A": "required", "resources:VGPU": "1"},
        {"trait:CUSTOM_B": "required", "hw_tpm_version": "2.0"},
        availability_zone="az1",
    )
    nova_request = request.request_to_placement(server, AGGREGATES)
    assert {str(part): str(where) for part, where in nova_request.sources.items()} == {
        "resources=VGPU:1": "flavor extra specs: resources:VGPU=1",
        "resources=PCPU:4": "CPU pinning: hw:cpu_policy=dedicated",
        "resources=MEMORY_MB:2048": "flavor: ram=2048",
        "resources=DISK_GB:20": "flavor: disk=20",
        "required=CUSTOM_A": "flavor extra specs: trait:CUSTOM_A=required",
        "required=CUSTOM_B": "image traits: trait:CUSTOM_B=required",
        "required=COMPUTE_SECURITY_TPM_2_0": "virtual TPM: image hw_tpm_version=2.0",
        "required=COMPUTE_SECURITY_TPM_TIS": (
            "virtual TPM: image hw_tpm_version=2.0 without a model"
        ),
        "member_of=U-az1": "request filter: availability zone: az1",
        "root_required=!COMPUTE_STATUS_DISABLED": "request filter: compute status",
        "root_required=COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER": (
            "request filter: TPM secret security: image hw_tpm_version=2.0, default user"
        ),
    }
    assert set(nova_request.sources) == set(constraint.constraints_of(nova_request.query))


@pytest.mark.parametrize(
    ("option", "fields", "added"),
    [
        ("limit_tenants_to_placement_aggregate", {"project_id": "acme"}, "member_of=U-tenants"),
        ("enable_isolated_aggregate_filtering", {}, "member_of=!U-windows"),
        (
            "query_placement_for_image_type_support",
            {"disk_format": "qcow2"},
            "root_required=COMPUTE_IMAGE_TYPE_QCOW2",
        ),
        (
            "image_metadata_prefilter",
            {"image": {"hw_disk_bus": "virtio"}},
            "root_required=COMPUTE_STORAGE_BUS_VIRTIO",
        ),
        (
            "image_metadata_prefilter",
            {"image": {"hw_architecture": "amd64"}},
            "root_required=HW_ARCH_X86_64",
        ),
        ("owner", {}, "root_required=OWNER_NOVA"),
    ],
)
def test_an_optional_filter_adds_its_part(
    option: str, fields: Mapping[str, Any], added: str
) -> None:
    assert added not in parameters(spec(**fields))
    assert added in parameters(spec(**fields), **{option: True})


def test_the_disk_format_of_a_volume_is_no_part() -> None:
    options = {"query_placement_for_image_type_support": True}
    assert "IMAGE_TYPE" not in parameters(spec(disk_format="qcow2", from_volume=True), **options)


@pytest.mark.parametrize(
    ("specs", "fields", "added"),
    [
        ({"os:secure_boot": "required"}, {}, "required=COMPUTE_SECURITY_UEFI_SECURE_BOOT"),
        ({}, {"image": {"os_secure_boot": "optional"}}, ALWAYS),
        ({"hw:pci_numa_affinity_policy": "socket"}, {}, "required=COMPUTE_SOCKET_PCI_NUMA_"),
        ({"hw:pci_numa_affinity_policy": "legacy"}, {}, ALWAYS),
        (
            {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"},
            {"image": {"hw_cpu_thread_policy": "require"}},
            "required=HW_CPU_HYPERTHREADING",
        ),
        (
            {"hw:cpu_policy": "dedicated"},
            {"image": {"hw_cpu_thread_policy": "isolate"}},
            "required=!HW_CPU_HYPERTHREADING",
        ),
        (
            {"hw:ephemeral_encryption": "true"},
            {"image": {"hw_ephemeral_encryption_format": "luks"}},
            "root_required=COMPUTE_EPHEMERAL_ENCRYPTION,COMPUTE_EPHEMERAL_ENCRYPTION_LUKS,!",
        ),
        (
            {"resources1:VGPU": "1", "resources2:VGPU": "1", "group_policy": "isolate"},
            {},
            "group_policy=isolate",
        ),
        (
            {"accel:device_profile": "gpu"},
            {"profile": [{"resources:FPGA": "1", "trait:CUSTOM_OLD": "forbidden"}]},
            "resources_device_profile_0=FPGA:1&required_device_profile_0=!CUSTOM_OLD",
        ),
        (
            {},
            {"ports": [Port("P", "port-1", "S", vnic_type="remote-managed")]},
            "root_required=COMPUTE_REMOTE_MANAGED_PORTS,!COMPUTE",
        ),
    ],
)
def test_a_property_adds_its_part_with_a_source(
    specs: Mapping[str, str], fields: Mapping[str, Any], added: str
) -> None:
    sent = request.request_to_placement(spec(specs, **fields), AGGREGATES)
    assert added in query.encode(query.candidate_pairs(sent.query))
    assert set(sent.sources) == set(constraint.constraints_of(sent.query))


def test_a_port_adds_its_groups_and_their_subtree() -> None:
    groups = {
        name: RequestGroup(name, {"NET_BW_EGR_KILOBIT_PER_SEC": 5}, (frozenset({"CUSTOM_NET"}),))
        for name in ("g1", "g2")
    }
    port = Port("P", "port-1", "S", groups, same_subtree=frozenset(groups))
    text = parameters(spec(ports=(port,)))
    assert "resourcesg1=NET_BW_EGR_KILOBIT_PER_SEC:5&requiredg1=CUSTOM_NET" in text
    assert "group_policy=none&same_subtree=g1,g2" in text


@pytest.mark.parametrize(
    ("specs", "image", "reason"),
    [
        ({"hw:cpu_policy": "bogus"}, {}, "hw:cpu_policy=bogus is not a policy"),
        ({"trait1:CUSTOM_A": "required"}, {}, "it has CUSTOM_A but no resources1"),
        (
            {"resources1:VGPU": "1", "resources2:VGPU": "1"},
            {},
            "it has 2 suffixed groups but no group_policy",
        ),
        (
            {"trait:CUSTOM_A": "required"} | {"trait:CUSTOM_B": "forbidden"},
            {"trait:CUSTOM_B": "required"},
            "it requires and forbids CUSTOM_B",
        ),
        ({"hw:tpm_version": "3"}, {}, "hw:tpm_version=3 is not one of 1.2, 2.0"),
        ({"hw:mem_encryption": "true"}, {}, "needs an image with hw_firmware_type=uefi"),
        (
            {"hw:sound_model": "virtio"},
            {"hw_sound_model": "ich9"},
            "hw:sound_model=virtio contradicts the image's hw_sound_model=ich9",
        ),
        (
            {"hw:serial_port_count": "1"},
            {"hw_serial_port_count": "2"},
            "the image's hw_serial_port_count=2 exceeds hw:serial_port_count=1",
        ),
        # Nova compares numbers of CPUs that it ignores as amounts.
        ({"resources:PCPU": "-1"}, {}, "resources:PCPU=-1 is not the flavor's 4 vcpus"),
        ({"resources:VCPU": "-1"}, {"hw_cpu_policy": "shared"}, "not allowed with a CPU policy"),
        ({"resources1:VCPU": "+2"}, {"hw_cpu_policy": "shared"}, "not allowed with a CPU policy"),
        (
            {f"resources:{name}": "0" for name in ("VCPU", "MEMORY_MB", "DISK_GB")},
            {},
            "flavor m1 requests no resources",
        ),
        (
            {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"},
            {"hw_cpu_thread_policy": "require"},
            "hw:cpu_thread_policy=isolate forbids the image's hw_cpu_thread_policy=require",
        ),
        (
            {"hw:mem_encryption": "true"},
            {"hw_mem_encryption": "false", "hw_firmware_type": "uefi"},
            "hw:mem_encryption=true contradicts the image's hw_mem_encryption=false",
        ),
        (
            {"hw:mem_encryption": "true"},
            {"hw_firmware_type": "uefi", "hw_machine_type": "pc-i440fx"},
            "hw:mem_encryption=true needs the machine type q35, not pc-i440fx",
        ),
        (
            {"hw:mem_encryption": "true", "hw:mem_encryption_model": "intel-tdx"},
            {"hw_firmware_type": "uefi", "hw_machine_type": "pc-q35-9.0"},
            "with this model needs an image with hw_video_model=none",
        ),
        (
            {"hw:ephemeral_encryption": "true", "hw:ephemeral_encryption_format": "zip"},
            {},
            "hw:ephemeral_encryption_format=zip is not one of plain, luks, luksv2",
        ),
        (
            {"hw:tpm_version": "2.0", "hw:tpm_secret_security": "all"},
            {},
            "hw:tpm_secret_security=all is not one of user, host, deployment",
        ),
        # CPUs and NUMA nodes
        (
            {"hw:cpu_dedicated_mask": "0-3"},
            {},
            "hw:cpu_dedicated_mask=0-3 must select some CPUs and leave some",
        ),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0", "hw:cpu_realtime": "yes"},
            {"hw_cpu_realtime_mask": "1"},
            "hw:cpu_dedicated_mask and hw:cpu_realtime exclude each other",
        ),
        ({"hw:cpu_realtime": "yes"}, {}, "hw:cpu_realtime needs a dedicated or mixed CPU policy"),
        ({"hw:numa_nodes": "0"}, {}, "0 is not a number of NUMA nodes"),
        (numa("0-2", "2"), {}, "several NUMA nodes have the CPUs [2]"),
        (numa("0", "1-2"), {}, "no NUMA node has the CPUs [3]"),
        (numa("0-1", "2-3"), {"hw_numa_mem.0": "1"}, "hw:numa_mem forbids the image's hw_numa_mem"),
        ({"hw:cpu_sockets": "two"}, {}, "hw:cpu_sockets=two is not a number"),
        (
            {"hw:pci_numa_affinity_policy": "socket"},
            {"hw_pci_numa_affinity_policy": "legacy"},
            "=socket forbids the image's hw_pci_numa_affinity_policy=legacy",
        ),
    ],
)
def test_a_flavor_that_gives_no_valid_query_is_an_error(
    specs: Mapping[str, str], image: Mapping[str, str], reason: str
) -> None:
    with pytest.raises(errors.InvalidInput, match="flavor m1") as caught:
        parameters(spec(specs, image))
    assert reason in str(caught.value)


def test_what_only_cyborg_requests_is_not_checked() -> None:
    sent = request.request_to_placement(spec({"accel:device_profile": "gpu"}))
    assert sent.query.root_required == {"COMPUTE_ACCELERATORS"}
    assert sent.caveats.doubts == ("only Cyborg knows the resources of the device profile gpu",)


def test_what_is_not_known_is_listed() -> None:
    nova_request = request.request_to_placement(
        request.ServerSpec(flavor.Flavor(1, 1, 1), availability_zone="moon"),
        AGGREGATES,
        nova_options.SchedulerOptions(limit_tenants_to_placement_aggregate=True),
    )
    assert [text.partition(":")[0] for text in nova_request.caveats.assumed] == [
        "the image has no properties that change the request",
        "no project is given",
        "no host aggregate has the availability zone moon",
        request.OWNER_UNKNOWN.partition(":")[0],
        "nova.conf is not given",
    ]
    off = nova_request.caveats.assumed[-1].rpartition(": ")[2].split(", ")
    assert off == [
        "image type support", "isolated aggregates", "image metadata", "routed networks",
    ]  # fmt: skip


def test_a_project_without_an_aggregate_may_be_refused() -> None:
    options = {
        "limit_tenants_to_placement_aggregate": True,
        "placement_aggregate_required_for_tenants": True,
    }
    with pytest.raises(errors.InvalidInput, match="filter_tenant_id=other"):
        parameters(spec(project_id="other"), **options)


def test_a_nova_conf_sets_the_options(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "nova.conf"
    path.write_text(
        "[scheduler]\nlimit_tenants_to_placement_aggregate = yes\nmax_placement_results = 50\n"
        "[filter_scheduler]\nenabled_filters = ComputeFilter,NUMATopologyFilter\n"
        "pci_in_placement = true\n"
        '[pci]\nalias = {"name": "gpu", "resource_class": "h100", "traits": "a"}\n'
        "[other]\nunknown = 1\n"
    )
    options = nova_options.read_nova_conf(path, nova_options.SchedulerOptions(owner=True))
    assert options == nova_options.SchedulerOptions(
        max_placement_results=50,
        limit_tenants_to_placement_aggregate=True,
        owner=True,
        enabled_filters=("ComputeFilter", "NUMATopologyFilter"),
        max_instances_per_host=50,
        allow_resize_to_same_host=False,
        pci_in_placement=True,
        aliases={
            "gpu": [
                nova_options.PciAlias(
                    "CUSTOM_H100", frozenset({"CUSTOM_A"}), has_ids=False, has_class=True
                )
            ]
        },
    )
    path.write_text("[scheduler]\n")
    options = nova_options.read_nova_conf(path, options)
    assert options.enabled_filters == nova_options.DEFAULT_FILTERS


@pytest.mark.parametrize("text", ["[scheduler]\nmax_placement_results = many\n", "no section"])
def test_an_invalid_nova_conf_is_an_error_that_names_it(tmp_path: pathlib.Path, text: str) -> None:
    path = tmp_path / "nova.conf"
    path.write_text(text)
    with pytest.raises(errors.PlacementError, match=str(path)):
        nova_options.read_nova_conf(path, nova_options.SchedulerOptions())


def by_release(specs: Mapping[str, str], image: Mapping[str, str], *releases: int) -> list[str]:
    requests = request.requests_by_release(spec(specs, image), AGGREGATES, None, releases)
    return [
        f"{single.title}: {query.encode(query.candidate_pairs(single.query)).removeprefix('?')}"
        for single in requests
    ]


@pytest.mark.parametrize(
    ("specs", "image", "since", "trait"),
    [
        ({"hw:virtio_packed_ring": "true"}, {}, 29, "COMPUTE_NET_VIRTIO_PACKED"),
        ({}, {"hw_maxphysaddr_mode": "emulate"}, 29, "COMPUTE_ADDRESS_SPACE_EMULATED"),
        (
            {},
            {"hw_firmware_type": "uefi", "hw_firmware_stateless": "true"},
            30,
            "COMPUTE_SECURITY_STATELESS_FIRMWARE",
        ),
        ({"hw:tpm_version": "2.0"}, {}, 30, "COMPUTE_SECURITY_TPM_TIS"),
        ({"hw:sound_model": "virtio"}, {}, 32, "COMPUTE_SOUND_MODEL_VIRTIO"),
        ({"hw:tpm_version": "2.0"}, {}, 33, "COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER"),
        ({"hw:mem_encryption": "true"}, {"hw_firmware_type": "uefi"}, 32, "HW_CPU_X86_AMD_SEV"),
    ],
)
def test_a_rule_counts_from_its_release_on(
    specs: Mapping[str, str], image: Mapping[str, str], since: int, trait: str
) -> None:
    for release in traits.RELEASES:
        text = parameters(spec(specs, image), release=release)
        assert (trait in text) is (release >= since), release


SWITCHES = ("hw:virtio_packed_ring", "hw:ephemeral_encryption")


@pytest.mark.parametrize("release", traits.RELEASES)
@pytest.mark.parametrize("spec_key", SWITCHES)
@pytest.mark.parametrize("own", ["true", "1", "no", "off", ""])
@pytest.mark.parametrize("flavor_value", ["yes", "True", "0", "false", ""])
def test_a_switch_of_the_flavor_that_differs_from_that_of_the_image_is_refused(
    release: int, spec_key: str, own: str, flavor_value: str
) -> None:
    """Nova 29 refuses the packed virtqueue with both, even if they agree."""
    packed = spec_key == SWITCHES[0]
    server = spec({spec_key: flavor_value}, {spec_key.replace(":", "_"): own})
    agree = (flavor_value in ("yes", "True")) == (own in ("true", "1"))
    if packed and release < 29:
        agree = True
    if agree and not (packed and release == 29):
        parameters(server, release=release)
    else:
        with pytest.raises(errors.InvalidInput, match=f"the image's {spec_key.replace(':', '_')}"):
            parameters(server, release=release)


@pytest.mark.parametrize("model", ["amd-sev-snp", "intel-tdx"])
def test_models_of_encrypted_memory_are_refused_before_nova_34(model: str) -> None:
    specs = {"hw:mem_encryption": "true", "hw:mem_encryption_model": model}
    image = {
        "hw_firmware_type": "uefi", "hw_firmware_stateless": "true", "hw_video_model": "none",
    }  # fmt: skip
    assert model.partition("-")[2].upper().replace("-", "_") in parameters(
        spec(specs, image), release=34
    )
    with pytest.raises(errors.InvalidInput, match="is not one of amd-sev, amd-sev-es"):
        parameters(spec(specs, image), release=33)


def test_releases_that_send_different_requests_are_told_apart() -> None:
    same = by_release({}, {}, 31, 32)
    assert len(same) == 1
    assert same[0].startswith("nova 31 or 32: ")
    newer, older = by_release({"hw:sound_model": "virtio"}, {}, 31, 32)
    assert newer.startswith("nova 32: ")
    assert "SOUND" in newer
    assert older.startswith("nova 31: ")
    assert "SOUND" not in older


def test_a_release_that_refuses_a_flavor_is_named() -> None:
    specs = {"hw:mem_encryption": "true", "hw:mem_encryption_model": "amd-sev-snp"}
    image = {"hw_firmware_type": "uefi", "hw_firmware_stateless": "true"}
    options = nova_options.SchedulerOptions(owner=False)
    [nova_request] = request.requests_by_release(spec(specs, image), (), options, releases=(33, 34))
    assert nova_request.releases == (34,)
    assert "nova 33 refuses it" in nova_request.caveats.doubts[-1]
    with pytest.raises(errors.InvalidInput, match="not one of"):
        request.requests_by_release(spec(specs, image), releases=(32, 33))


@pytest.mark.parametrize(
    ("version", "releases"),
    [
        ("2.90", (27, 28)), ("2.95", (27, 28)), ("2.96", (29, 30)), ("2.98", (31, 32)),
        ("2.100", (31, 32)), ("2.103", (33,)), ("2.104", (34,)), ("2.110", (34,)),
    ],
)  # fmt: skip
def test_the_version_of_the_compute_api_tells_the_releases(
    version: str, releases: tuple[int, ...]
) -> None:
    assert traits.releases_of(version) == releases


def test_encrypted_memory_without_an_image_is_assumed_to_have_one() -> None:
    embedded = flavor.Flavor(4, 2048, 20, extra_specs={"hw:mem_encryption": "true"})
    sent = request.request_to_placement(request.ServerSpec(embedded, "m1"))
    assert "MEM_ENCRYPTION_CONTEXT" in query.encode(query.candidate_pairs(sent.query))
    assert "the image has hw_firmware_type=uefi for encrypted memory" in sent.caveats.assumed


ALIASES = ('{"name": "gpu", "vendor_id": "10de", "product_id": "2330", "traits": "custom_a"}',)


def test_each_pci_device_is_a_group_of_its_own() -> None:
    options = {"aliases": nova_options.read_aliases(ALIASES), "pci_in_placement": True}
    server = spec({"pci_passthrough:alias": "gpu:2"})
    text = parameters(server, **options)
    for number in (1, 2):
        assert f"resources_pci-{number}=CUSTOM_PCI_10DE_2330:1" in text
        assert f"required_pci-{number}=CUSTOM_A" in text
    assert "required_pci-2=CUSTOM_A,OWNER_NOVA" in parameters(server, owner=True, **options)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "only nova.conf"),
        (
            {"aliases": nova_options.read_aliases(ALIASES)},
            "only with [filter_scheduler]pci_in_placement",
        ),
    ],
)
def test_devices_that_are_not_in_the_query_are_not_checked(
    options: Mapping[str, Any], reason: str
) -> None:
    nova_request = request.request_to_placement(
        spec({"pci_passthrough:alias": "gpu:8"}), options=nova_options.SchedulerOptions(**options)
    )
    assert any(reason in text for text in nova_request.caveats.doubts)


def test_an_alias_that_nova_does_not_have_is_an_error() -> None:
    with pytest.raises(errors.InvalidInput, match=r"\[pci\]alias has no h100"):
        parameters(
            spec({"pci_passthrough:alias": "h100:8"}), aliases=nova_options.read_aliases(ALIASES)
        )


@pytest.mark.parametrize(
    ("owner", "releases", "titles"),
    [
        (None, (32, 33), ["nova 32 or 33"]),
        (None, (33, 34), ["nova 33 or 34", "nova 34 that requires OWNER_NOVA"]),
        (False, (33, 34), ["nova 33 or 34"]),
        (True, (33, 34), ["nova 34", "nova 33"]),
    ],
)
def test_a_release_with_the_owner_filter_has_two_requests_if_nothing_tells_whether_it_is_on(
    owner: bool | None, releases: tuple[int, ...], titles: list[str]
) -> None:
    options = nova_options.SchedulerOptions(owner=owner)
    requests = request.requests_by_release(spec(), (), options, releases)
    assert [single.title for single in requests] == titles
    for single in requests:
        requires = "OWNER_NOVA" in single.query.root_required
        assert requires == ((owner is True and 34 in single.releases) or bool(single.condition))
        is_assumed = request.OWNER_UNKNOWN in single.caveats.assumed
        assert is_assumed == (owner is None and 34 in releases and not single.condition)


def test_a_wrong_alias_that_the_flavor_does_not_request_is_refused_from_nova_31_on() -> None:
    twice = nova_options.read_aliases(
        [*ALIASES, *(text.replace("gpu", "b") for text in ALIASES * 2)]
    )
    server = spec({"pci_passthrough:alias": "gpu:1"})
    options = {"aliases": twice, "pci_in_placement": True}
    assert "CUSTOM_PCI_10DE_2330" in parameters(server, release=30, **options)
    requesting = spec({"pci_passthrough:alias": "b:1"})
    for refused, release in ((server, 31), (requesting, 30)):
        with pytest.raises(errors.InvalidInput, match="alias b is set 2 times"):
            parameters(refused, release=release, **options)


@pytest.mark.parametrize(
    ("key", "value", "refusing"),
    [
        ("hw_vif_model", "igb", range(27, 31)),
        ("hw_mem_encryption_model", "amd-sev-snp", range(32, 34)),
    ],
)
def test_an_image_with_a_value_of_a_newer_release_is_refused(
    key: str, value: str, refusing: range
) -> None:
    for release in traits.RELEASES:
        if release in refusing:
            with pytest.raises(errors.InvalidInput, match=f"does not know the image's {key}"):
                parameters(spec({}, {key: value}), release=release)
        else:
            parameters(spec({}, {key: value}), release=release)


def test_an_alias_under_its_former_name_is_one(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "nova.conf"
    path.write_text('[DEFAULT]\npci_alias = {"name": "gpu", "resource_class": "h100"}\n')
    options = nova_options.read_nova_conf(path, nova_options.SchedulerOptions())
    assert options.aliases is not None
    assert options.aliases.keys() == {"gpu"}
