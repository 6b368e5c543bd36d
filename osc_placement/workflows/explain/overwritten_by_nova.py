# SPDX-License-Identifier: Apache-2.0
"""What nova-compute sets back of the changes of a host, and where to change it instead. Pure.

Nova-compute writes the standard traits and the inventories of its driver again: what nova.conf or
the hardware says. The custom ones are the operator's, unless a provider.yaml names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from osc_placement.model.name import CUSTOM_PREFIX
from osc_placement.scheduling import traits
from osc_placement.workflows.explain.changes import DISABLED, Action, SmallestChange, Step

#: ``{(field, class): the option of nova.conf}``.
_OPTIONS: Mapping[tuple[str, str], str] = {
    ("allocation_ratio", "VCPU"): "cpu_allocation_ratio",
    ("allocation_ratio", "MEMORY_MB"): "ram_allocation_ratio",
    ("allocation_ratio", "DISK_GB"): "disk_allocation_ratio",
    ("reserved", "VCPU"): "reserved_host_cpus",
    ("reserved", "MEMORY_MB"): "reserved_host_memory_mb",
    ("reserved", "DISK_GB"): "reserved_host_disk_mb",
    ("total", "VCPU"): "[compute]cpu_shared_set",
    ("total", "PCPU"): "[compute]cpu_dedicated_set",
}

_TRAIT = "the driver reports it, about 5 minutes later"
_CPU_TRAIT = "set [libvirt]cpu_models or cpu_model_extra_flags in nova.conf"


def notes(changes: Iterable[SmallestChange]) -> list[str]:
    """A line for each kind of change that does not last on a provider of nova-compute."""
    return list(
        dict.fromkeys(line for change in changes for step in change.steps for line, _ in _of(step))
    )


def lasts(change: SmallestChange) -> bool:
    """Whether nova-compute keeps each step of a change, unless its configuration says otherwise."""
    return not any(is_certain for step in change.steps for _, is_certain in _of(step))


def _of(step: Step) -> Iterator[tuple[str, bool]]:
    """``(the note, whether it is so with each configuration)``."""
    is_custom = step.name.startswith(CUSTOM_PREFIX)
    # Nova-compute itself takes the one away, and gives the other.
    is_kept = is_custom or step.name in (DISABLED, traits.OWNER)
    if step.action in (Action.ADD_TRAIT, Action.REMOVE_TRAIT) and not is_kept:
        where = _CPU_TRAIT if step.name.startswith("HW_CPU_") else _TRAIT
        yield f"nova-compute sets back the trait {step.name}: {where}", True
    if step.action not in (Action.RAISE, Action.AMEND):
        return
    what = f"{step.field} of {step.name}"
    option = _OPTIONS.get((step.field, step.name))
    if is_custom:
        yield f"nova-compute sets back {what} if its provider.yaml names it: change it there", False
    elif option and step.field == "allocation_ratio":
        yield f"nova-compute sets back {what} if nova.conf has {option}: change it there", False
    elif option:
        yield f"nova-compute sets back {what}: change {option} in nova.conf", True
    else:
        yield f"nova-compute sets back {what}: no option sets it, the host itself decides", True
