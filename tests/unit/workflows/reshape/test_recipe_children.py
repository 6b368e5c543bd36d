# SPDX-License-Identifier: Apache-2.0
"""Recipes that move resources of a node to its children: encryption, PCI devices."""

from __future__ import annotations

from osc_placement.workflows.reshape import device_recipes, recipes, snapshot
from tests.support.embedded import uuid_of
from tests.support.reshape import cloud_builder
from tests.support.reshape.recipes import held, outcome, problems

CONTEXT = device_recipes.MEM_ENCRYPTION_CONTEXT
PROVIDERS: cloud_builder.Providers = {
    "cn1": (None, {"VCPU": 16, "PCPU": 8, "MEMORY_MB": 1001, CONTEXT: 15, "CUSTOM_GPU": 3}),
}
CONSUMERS: cloud_builder.Consumers = {
    "a": {"cn1": {"PCPU": 4, "MEMORY_MB": 100, CONTEXT: 1}},
    "b": {"cn1": {"PCPU": 2, "MEMORY_MB": 200, "CUSTOM_GPU": 2, CONTEXT: 1}},
    "c": {"cn1": {"VCPU": 1, "CUSTOM_GPU": 1}},
}
A, B, C, CN1 = (uuid_of(name) for name in ("a", "b", "c", "cn1"))
GPU = "CUSTOM_PCI_10DE_1EB8"


def cloud() -> snapshot.TreeSnapshot:
    return cloud_builder.snapshot_of(cloud_builder.state(PROVIDERS, CONSUMERS, {}), "cn1")


def test_several_models_need_evidence() -> None:
    models = {"amd-sev": 10, "amd-sev-es": 5}
    recipe = device_recipes.plan_sev(cloud(), CN1, models, ((A, "amd-sev-es"),))
    assert recipe.undecided == (B,)
    decided = device_recipes.plan_sev(cloud(), CN1, models, ((A, "amd-sev-es"), (B, "amd-sev")))
    after = outcome(decided, cloud())
    assert held(after, "a")["cn1_amd_sev_es"] == held(after, "b")["cn1_amd_sev"] == {CONTEXT: 1}
    assert problems(device_recipes.plan_sev, cloud(), CN1, {"amd-sev": 9}, ((C, "amd-sev"),)) == [
        "cn1 has 15 MEM_ENCRYPTION_CONTEXT and the models 9: a reshape moves resources and keeps"
        " their sum ('openstack resource provider inventory amend' changes totals)",
        f"consumer {C} has no resources that move",
    ]


DEVICES = (
    recipes.Child("0000:81:00.0", {"CUSTOM_GPU": 1}, ("CUSTOM_FAST",)),
    recipes.Child("0000:82:00.0", {"CUSTOM_GPU": 2}),
)
BECOMES = {"CUSTOM_GPU": GPU}


def test_a_server_with_two_pci_devices_has_an_amount_of_each() -> None:
    split = ((B, "0000:81:00.0"), (B, "0000:82:00.0"), (C, "0000:82:00.0"))
    recipe = device_recipes.plan_pci(cloud(), CN1, DEVICES, BECOMES, split)
    after = outcome(recipe, cloud())
    assert held(after, "b")["cn1_0000:81:00.0"] == held(after, "b")["cn1_0000:82:00.0"] == {GPU: 1}


def test_evidence_about_other_devices_and_servers_is_listed_and_not_used() -> None:
    other = ((A, "0000:81:00.0"), (B, "0000:af:00.0"))
    recipe = device_recipes.plan_pci(cloud(), CN1, DEVICES, BECOMES, other)
    assert recipe.undecided == (B, C)
    assert f": {A}=0000:81:00.0, {B}=0000:af:00.0." in recipe.head[-1]
