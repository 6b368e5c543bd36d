# SPDX-License-Identifier: Apache-2.0
"""Pseudonyms: equal names stay equal, different ones different, and related ones related."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

import osc_placement.nova
from osc_placement import errors
from osc_placement.model import allocation
from osc_placement.nova import flavor, values
from osc_placement.scheduling import filters, request
from osc_placement.scheduling.answer import Answer
from osc_placement.scheduling.case import Case, Way
from osc_placement.scheduling.rule import Host
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.snapshot import anonymize, file, pseudonyms
from osc_placement.workflows.snapshot.pseudonyms import NameKind, Pseudonyms

UUID = "0f0e0d0c-0b0a-4908-8706-050403020100"
LABEL = st.text("ab1-", min_size=1, max_size=3)
HOSTS = st.one_of(
    LABEL,
    st.builds("{}.{}".format, LABEL, LABEL),
    st.builds("{}.{}_{}".format, LABEL, LABEL, LABEL),
    st.builds("{}:{}_{}".format, LABEL, LABEL, LABEL),
    st.builds("{}_pci_0000_84_00_{}".format, LABEL, st.sampled_from("01")),
    # Placement keeps the forms of one UUID as different names.
    st.sampled_from([UUID, UUID.upper(), UUID.replace("-", ""), f"{{{UUID}}}", f"urn:uuid:{UUID}"]),
)


class Growing:
    """Gives every name a pseudonym when it is first seen."""

    def __init__(self) -> None:
        self.key = pseudonyms.create("cloud")

    def __call__(self, kind: NameKind, text: str) -> str:
        self.key.add({kind: [text]})
        return self.key.pseudonym(kind, text)


def names() -> Pseudonyms:
    return Pseudonyms(Growing())


@given(st.lists(HOSTS, unique=True, max_size=8))
def test_different_hosts_have_different_pseudonyms(hosts: list[str]) -> None:
    replaced = names()
    made = [replaced.host(host) for host in hosts]
    assert len(set(made)) == len(hosts)
    assert made == [replaced.host(host) for host in hosts]


@given(HOSTS, st.sampled_from("_:"), LABEL)
def test_the_name_of_a_child_begins_with_that_of_its_host(
    host: str, separator: str, child: str
) -> None:
    replaced = names()
    assert replaced.host(f"{host}{separator}{child}").startswith(
        f"{replaced.host(host)}{separator}"
    )


def test_a_host_and_its_full_name_stay_related() -> None:
    replaced = names()
    assert replaced.host("cmp-1.example.org").partition(".")[0] == replaced.host("cmp-1")
    assert replaced.host("cmp-1_pci_0000_84_00_0").endswith("_pci_0000_84_00_0")
    assert replaced.host(UUID) == replaced.uuid(UUID)


def test_a_uuid_keeps_its_form() -> None:
    replaced = names()
    made = replaced.uuid(UUID)
    assert re.fullmatch(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", made)
    assert replaced.uuid(UUID.replace("-", "")) == made.replace("-", "")
    assert replaced.uuid(UUID.upper()) == made


def test_what_every_cloud_has_stays() -> None:
    replaced = names()
    assert replaced.project(allocation.PLACEHOLDER) == allocation.PLACEHOLDER
    assert replaced.trait("HW_CPU_X86_AVX2") == "HW_CPU_X86_AVX2"
    assert replaced.resource_class("VCPU") == "VCPU"
    assert replaced.consumer_type("INSTANCE") == "INSTANCE"
    assert Pseudonyms(Growing(), {"HW_NEW"}).trait("HW_NEW") == "HW_NEW"
    # Not a trait of any Placement: the name may say anything.
    assert "ACME" not in replaced.trait("ACME_GPU")


def test_new_names_are_numbered_in_their_order_and_avoid_the_names_of_others() -> None:
    key = pseudonyms.create("cloud")
    key.add({NameKind.SERVER: ["b", "a", "anon-server-00002"]})
    assert key.pseudonyms[NameKind.SERVER] == {
        "a": "anon-server-00001",
        "anon-server-00002": "anon-server-00003",
        "b": "anon-server-00004",
    }
    key.add({NameKind.SERVER: ["0", "a"]})
    assert key.pseudonym(NameKind.SERVER, "0") == "anon-server-00005"


def test_a_key_is_read_as_it_was_written(tmp_path: pathlib.Path) -> None:
    path, key = tmp_path / "key.json", pseudonyms.create("cloud")
    key.add({NameKind.HOST: ["cmp-1"], NameKind.UUID: [UUID]})
    pseudonyms.write(path, key)
    assert pseudonyms.read(path) == key
    assert path.stat().st_mode & 0o777 == 0o600
    assert pseudonyms.read(tmp_path / "missing.json") is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format_version": 99}'])
def test_a_file_that_is_not_a_key_is_refused(tmp_path: pathlib.Path, text: str) -> None:
    path = tmp_path / "key.json"
    path.write_text(text)
    with pytest.raises(errors.PlacementError, match=r"is not a key file|another version"):
        pseudonyms.read(path)


def test_extra_specs_that_nova_reads_keep_their_meaning() -> None:
    replaced = names()
    made = anonymize.extra_specs(
        replaced,
        {
            "hw:cpu_policy": "dedicated",
            "hw:cpu_dedicated_mask": "0-3,^2",
            "hw:tpm_model": "tpm-crb",
            "hw:sound_model": "acme",
            "hw:pmem": "4GB,4GB,acme",
            "resources:CUSTOM_PMEM_NAMESPACE_4GB": "1",
            "resources_ACME:VCPU": "2",
            "trait1:CUSTOM_GOLD": "required",
            "pci_passthrough:alias": "acme-gpu:2",
            "accel:device_profile": "acme",
            "hw:numa_cpus.1": "2-3",
            "hw:pci_numa_affinity_policy": "preferred",
            "quota:cpu_quota": "1000",
            "acme:customer": "acme",
        },
    )
    assert "acme" not in str(made).lower()
    assert "GOLD" not in str(made)
    assert made["hw:cpu_policy"] == "dedicated"
    assert made["hw:cpu_dedicated_mask"] == "0-3,^2"
    assert made["hw:tpm_model"] == "tpm-crb"
    assert made["hw:numa_cpus.1"] == "2-3"
    assert made["hw:pci_numa_affinity_policy"] == "preferred"
    assert made["pci_passthrough:alias"].endswith(":2")
    assert not {"quota:cpu_quota", "acme:customer"} & made.keys()
    first, second, other = made["hw:pmem"].split(",")
    assert first == second != other
    assert made[f"resources:{flavor.pmem_class(first)}"] == "1"


def test_the_properties_of_images_are_those_that_nova_reads() -> None:
    given = {"hw_machine_type": "pc-q35-6.2", "hw_disk_bus": "virtio", "hw_vif_model": "acme"}
    made = anonymize.image_properties(names(), {**given, "owner": "acme", "hw_acme": "1"})
    assert made["hw_machine_type"] == "pc-q35-6.2"
    assert made["hw_disk_bus"] == "virtio"
    assert "acme" not in str(made)
    assert set(made) == set(given)


def test_every_property_that_the_code_reads_is_kept() -> None:
    package = pathlib.Path(osc_placement.nova.__path__[0]).parent
    modules = [*package.glob("nova/*.py"), *package.glob("scheduling/*.py")]
    source = "\n".join(path.read_text() for path in modules)
    specs = set(re.findall(r'"((?:hw|os|accel|pci_passthrough):[a-z_]+)"', source))
    images = set(re.findall(r'"((?:hw|os|img)_[a-z_]+)"', source)) - {"hw_", "os_", "img_"}
    assert len(specs | images) > 50
    assert [key for key in sorted(specs | images) if not anonymize.is_defined(key)] == []


def made_of_aggregate(replaced: Pseudonyms, metadata: dict[str, str]) -> dict[str, Any]:
    aggregate = {
        "id": 1,
        "name": "acme",
        "uuid": UUID,
        "hosts": ["cmp-1"],
        "availability_zone": "acme",
        "metadata": metadata,
    }
    found = anonymize.anonymized_response(
        replaced, "GET /v2.1/os-aggregates", {"aggregates": [aggregate]}
    )
    assert found is not None
    (made,) = found[1]["aggregates"]
    assert "acme" not in str(made).lower()
    return dict(made)


def test_metadata_of_aggregates_has_pseudonyms() -> None:
    made = made_of_aggregate(
        names(),
        {
            "availability_zone": "acme",
            "filter_tenant_id": "acme",
            "filter_tenant_id_acme": "acme, acme2",
            "trait:CUSTOM_ACME": "required",
            "cpu_allocation_ratio": "4.0",
            "max_instances_per_host": "20",
            "instance_type": "acme.small",
            "acme": "acme",
        },
    )
    assert "availability_zone" not in made
    assert len(made["metadata"]) == 8
    assert made["metadata"]["cpu_allocation_ratio"] == "4.0"
    assert made["metadata"]["max_instances_per_host"] == "20"
    tenants = [value for key, value in made["metadata"].items() if key.startswith("filter_tenant")]
    assert tenants[1].split(",")[0] == tenants[0]


KEYS = st.sampled_from(["acme_disk", "hw_disk_bus", "instance_type", "group_policy"])
VALUES = st.sampled_from(["acme", "acme_b", "virtio", "4", "6.5", "true"])
REQUIREMENTS = st.one_of(
    VALUES,
    st.builds("<or> {} <or> {}".format, VALUES, VALUES),
    st.builds("{} {}".format, st.sampled_from(["s==", "s!=", ">=", "==", "<="]), VALUES),
)


@given(
    st.dictionaries(KEYS, st.lists(VALUES, min_size=1, max_size=2).map(",".join)),
    st.dictionaries(KEYS, VALUES),
    st.dictionaries(
        st.builds("{}{}".format, st.sampled_from(["", "aggregate_instance_extra_specs:"]), KEYS),
        REQUIREMENTS,
    ),
    st.sampled_from(["acme", "virtio"]),
)
def test_filters_give_the_same_verdicts_with_pseudonyms(
    metadata: dict[str, str], image: dict[str, str], specs: dict[str, str], flavor_name: str
) -> None:
    # Documented: the name of a flavor is replaced even if it is a number.
    assume(
        not any(
            key.endswith("instance_type") and requirement.startswith((">=", "==", "<="))
            for key, requirement in specs.items()
        )
    )
    replaced = Pseudonyms(Growing(), compared=frozenset(metadata))

    def verdicts(
        metadata: dict[str, str], image: dict[str, str], specs: dict[str, str], name: str
    ) -> list[Answer]:
        aggregate = values.HostAggregate("1", "a", UUID, (), metadata)
        spec = request.ServerSpec(
            flavor.Flavor(1, 1, 1, extra_specs=specs), image=image, flavor_name=name
        )
        case = Case(Way.BOOT, spec, ServerHosts(values.Hosts()))
        host = Host(listed=(aggregate,))
        return [rule.verdict(case, host).answer for rule in filters.FILTER_RULES]

    assert verdicts(metadata, image, specs, flavor_name) == verdicts(
        made_of_aggregate(replaced, metadata)["metadata"],
        anonymize.image_properties(replaced, image),
        anonymize.extra_specs(replaced, specs),
        replaced.of(NameKind.FLAVOR, flavor_name),
    )


@pytest.mark.parametrize(
    "request_",
    ["GET /v2.1/os-keypairs", "GET /v2.1/servers/detail?name=acme", "GET /v2/images?name=acme"],
)
def test_a_response_that_no_command_reads_is_left_out(request_: str) -> None:
    assert anonymize.anonymized_response(names(), request_, {"servers": []}) is None


def test_notes_have_pseudonyms_and_no_text_of_errors() -> None:
    replaced = names()
    error = anonymize.anonymized_note(
        replaced, file.SaveNote(UUID, "not read: GET https://acme.example: 500")
    )
    assert error.text == "not read: the error is left out"
    text = f"allocation of CUSTOM_GOLD left out: provider {UUID} had no inventory of it"
    note = anonymize.anonymized_note(replaced, file.SaveNote(UUID, text))
    assert note.uuid == error.uuid != UUID
    assert note.uuid in note.text
    assert UUID not in note.text
    assert "GOLD" not in note.text
