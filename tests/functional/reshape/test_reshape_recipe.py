# SPDX-License-Identifier: Apache-2.0
"""``placement recipe``: command lines that are refused, and what a document leaves open."""

from __future__ import annotations

from osc_placement.testing.cloud import uuid_of
from tests.functional.reshape.test_reshape import (
    CONTEXT,
    EVACUATED,
    NEW,
    ONE,
    RECIPE,
    STATES,
    THREE,
    TWO,
    A,
    B,
)
from tests.support.peer import fixtures
from tests.support.rows import Row, checked

DEVICES = f"--device {A}=4 --device {B}=4"

# fmt: off
TABLE = [
    Row(f"{RECIPE} vgpu cn1 {DEVICES} --assign @domains.xml", "node", 1,
        "output of 'mdevctl list'"),
    Row(f"{RECIPE} vgpu cn1 --device {A}=4 --device {B}=4,SRIOV_NET_VF:2 --assign {ONE}={A}",
        "node", 0, (f"# {TWO}: ? # 1 SRIOV_NET_VF, 3 VGPU",)),
    Row(f"{RECIPE} vgpu cn1 {DEVICES} --out mine.yaml", "node", 1,
        "mine.yaml exists: give another file"),
    Row(f"{RECIPE} vgpu cn1 --device {A}=x --trait other=CUSTOM_A --assign me={A}", "node", 1,
        ("'x' is not an amount", "--trait other", f"--assign: 'me={A}' is not <server>=<value>")),
    Row(f"{RECIPE} vgpu unknown {DEVICES}", "node", 1, "provider 'unknown' does not exist"),
    Row(f"{RECIPE} vgpu cn1_{B} {DEVICES}", "node", 1, "is not a compute node: it has a parent"),
    Row(f"{RECIPE} sev cn1 --model sev=1 --model amd-sev=x --model amd-sev=0", "node", 1,
        ("--model sev: the models are amd-sev,", "'x' is not a number of servers",
         "--model amd-sev: given more than once")),
    Row(f"{RECIPE} sev cn1 --model amd-sev=5", "node", 1,
        f"cn1 has 15 {CONTEXT} and the models 5: a reshape moves resources and keeps their sum"),
    Row(f"{RECIPE} vgpu cn1 {DEVICES} --trait {A}", "node", 1,
        f"--trait {A}: must be of the form <name>=<value>"),
    Row(f"{RECIPE} replace-host cn1 cn1_{B}", "nova", 1,
        f"cn1_{B} is not a compute node: it has a parent"),
    Row(f"{RECIPE} sev cn2", "node", 1, f"cn2 itself has no {CONTEXT}"),
    Row(f"{RECIPE} pci cn1 --device gpu0=CUSTOM_GPU:2 --device 0000:81:00.0=2"
        " --as VGPU=10de:1eb8", "node", 1,
        ("--device gpu0: must be a PCI address", "'2' is not an amount, such as PCPU:16",
         "--as VGPU: no --device has this class")),
    Row(f"{RECIPE} pci cn1 --device 0000:81:00.0=CUSTOM_GPU:1,CUSTOM_GPU:2"
        " --as CUSTOM_GPU=10de:1eb --as CUSTOM_GPU=gpu", "node", 1,
        ("CUSTOM_GPU:1,CUSTOM_GPU:2: CUSTOM_GPU is given more than once",
         "--as CUSTOM_GPU: given more than once",
         "--as CUSTOM_GPU: '10de:1eb' is neither a resource class")),
    Row(f"{RECIPE} pcpu cn1 --cpu-dedicated-set 4-x", "nova", 1, "'4-x' is not a set of CPUs"),
    Row(f"{RECIPE} pcpu cn1 --cpu-dedicated-set 0-99 --assign {ONE}=PCPUS --assign {ONE}=VCPU",
        "nova", 1, ("itself has 16 VCPU: 100 cannot become PCPU",
        "is assigned to PCPUS and to VCPU", "'PCPUS' is neither VCPU nor PCPU")),
    Row(f"{RECIPE} pcpu cn1 --cpu-dedicated-set 4-11 --cpu-shared-set 0-3", "nova", 0,
        ("write 4 VCPU, and this recipe leaves 8", f"{THREE}: PCPU", f"# {EVACUATED}: ?")),
    Row(f"{RECIPE} replace-host cn1 cn1.example.net --uuid x", "up", 2, "'x' is not a UUID"),
    Row(f"{RECIPE} replace-host cn1 cn3 --uuid {uuid_of('cn2')}", "nova", 1,
        f"provider {uuid_of('cn2')} has the name 'cn2', not 'cn3'"),
    Row(f"{RECIPE} replace-host cn1 cn2 --uuid {NEW}", "nova", 1,
        f"a provider 'cn2' with another UUID, {uuid_of('cn2')}"),
    Row(f"{RECIPE} replace-host cn1 {uuid_of('cn2')} --uuid {NEW}", "nova", 1,
        "a provider 'cn2' with another UUID"),
]
# fmt: on

test_recipe = fixtures.ON_ONE_TARGET(checked(TABLE, STATES))
