"""VGPU of a compute node's root to one provider per physical GPU, as libvirt's driver reports it.

Pure. The driver names a GPU's provider ``<node>_<GPU>``, with libvirt's name for the PCI device:
``cn1_pci_0000_84_00_0``.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from osc_placement import errors
from osc_placement.workflows.reshape import snapshot
from osc_placement.workflows.reshape.recipe import yaml_writer

VGPU = "VGPU"

_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]", re.IGNORECASE)

_HEAD = """\
VGPU of {node}, from its own provider to one provider per physical GPU: {devices}.

Only the host knows which GPU a server uses. On {node}, this writes what --assign-from reads:

  for server in $(virsh list --all --uuid); do virsh dumpxml $server; done > evidence
  mdevctl list >> evidence

(Without mdevctl: virsh nodedev-dumpxml for each name of virsh nodedev-list --cap mdev; \
/sys/class/mdev_bus has the GPUs.) A server with "# <server>: ?" below is undecided; --strategy \
guesses its GPU.

1. Stop nova-compute on {node}: it writes the inventories of this tree every minute.
2. Check the plan, then apply it:

  openstack placement reshape FILE --dry-run
  openstack placement reshape FILE

3. Start nova-compute with [devices] enabled_mdev_types set for these GPUs. It writes VGPU of \
each GPU to the provider with this name, with the total that the driver reports, and none to \
{node} itself. If a name or a total differs, it creates other providers, so compare them with its \
log.

To undo it: stop nova-compute, and run openstack placement plan undo with the plan file that \
the reshape prints."""


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """A physical GPU: its name in libvirt, its resources, and the traits of its provider."""

    name: str
    resources: Mapping[str, int]
    traits: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """``evidence`` are pairs of a consumer's UUID and a device's name, as a host reports them."""

    devices: tuple[Device, ...]
    evidence: tuple[tuple[str, str], ...] = ()


def device_name(text: str) -> str:
    """Libvirt's name of a PCI device: ``pci_0000_84_00_0`` also for ``0000:84:00.0``."""
    if _PCI.fullmatch(text) is None:
        return text
    return "pci_" + re.sub("[:.]", "_", text.lower())


def plan_vgpu(trees: snapshot.TreeSnapshot, root: str, request: Request) -> yaml_writer.Recipe:
    """The recipe for the tree with this root (a UUID).

    Errors: InvalidInput with all contradictions to the cloud.
    """
    problems = errors.InputErrors()
    node = trees.nodes[root]
    problems.reasons += _contradictions(node, request.devices)
    assigned = dict(_assigned(trees, root, request, problems))
    problems.check()
    name = node.provider.name
    amounts_of = _amounts_of(trees, root, _classes(request))
    undecided = {
        item: amounts for item, amounts in amounts_of.items() if _has_choice(amounts, request)
    }
    return yaml_writer.Recipe(
        tuple(_head(name, request.devices)),
        {"moves": [_move(name, each) for each in request.devices]},
        {item: _targets(name, assigned[item]) for item in amounts_of if item in assigned},
        tuple(item for item in undecided if item not in assigned),
        {item: _amounts(amounts) for item, amounts in amounts_of.items()},
    )


def _targets(node: str, devices: Mapping[str, int]) -> Any:
    """The target of a consumer: one provider, or the amount on each of several."""
    named = {f"{node}_{device}": amount for device, amount in devices.items()}
    return {VGPU: named} if len(named) > 1 else next(iter(named))


def _head(name: str, devices: Iterable[Device]) -> Iterator[str]:
    shown = ", ".join(f"{each.name} ({_amounts(each.resources)})" for each in devices)
    yield from _HEAD.format(node=yaml_writer.plain(name), devices=shown).split("\n\n")


def _contradictions(node: snapshot.Node, devices: tuple[Device, ...]) -> Iterator[str]:
    name = node.provider.name
    names = [each.name for each in devices]
    for name_twice in sorted({each for each in names if names.count(each) > 1}):
        yield f"the device {name_twice} is given more than once"
    for resource_class in dict.fromkeys(one for each in devices for one in each.resources):
        held = node.inventories.get(resource_class)
        given = sum(each.resources.get(resource_class, 0) for each in devices)
        if held is None:
            offered = ", ".join(sorted(node.inventories)) or "no inventory"
            yield f"{name} itself has no {resource_class}: it has {offered}"
        elif held.total != given:
            yield (
                f"{name} has {held.total} {resource_class} and the devices {given}: a reshape"
                " moves resources and keeps their sum ('openstack resource provider inventory"
                " amend' changes totals)"
            )


def _assigned(
    trees: snapshot.TreeSnapshot, root: str, request: Request, problems: errors.InputErrors
) -> Iterator[tuple[str, dict[str, int]]]:
    """``(consumer, {device: number of VGPU})`` of valid evidence; invalid evidence is an error.

    A host lists a device once for each VGPU.
    """
    known = {each.name for each in request.devices}
    devices: dict[str, dict[str, int]] = {}
    for consumer, device in request.evidence:
        counts = devices.setdefault(consumer, {})
        counts[device] = counts.get(device, 0) + 1
    amounts_of = _amounts_of(trees, root, _classes(request))
    for consumer, counts in devices.items():
        if consumer not in amounts_of:
            problems.add(f"consumer {consumer} has no resources that move")
        elif unknown := sorted(counts.keys() - known):
            problems.add(f"consumer {consumer} uses {unknown[0]}, which is not a --device")
        elif len(counts) > 1 and sum(counts.values()) != amounts_of[consumer].get(VGPU, 0):
            problems.add(
                f"consumer {consumer} uses {_counted(counts)}, and has"
                f" {_amounts(amounts_of[consumer])}: list a device once for each VGPU"
            )
        else:
            yield consumer, counts


def _counted(devices: Mapping[str, int]) -> str:
    return " and ".join(f"{device} {count} times" for device, count in sorted(devices.items()))


def _classes(request: Request) -> set[str]:
    return {name for each in request.devices for name in each.resources}


def _amounts_of(
    trees: snapshot.TreeSnapshot, root: str, classes: Iterable[str]
) -> dict[str, dict[str, int]]:
    """``{consumer: its amounts of these classes on the root}``, by UUID."""
    found: dict[str, dict[str, int]] = {}
    for resource_class in sorted(classes):
        for consumer, amount in trees.consumers_of(root, resource_class).items():
            found.setdefault(consumer, {})[resource_class] = amount
    return dict(sorted(found.items()))


def _has_choice(amounts: Mapping[str, int], request: Request) -> bool:
    return any(
        sum(resource_class in each.resources for each in request.devices) > 1
        for resource_class in amounts
    )


def _move(node: str, device: Device) -> dict[str, Any]:
    target: dict[str, Any] = {"name": f"{node}_{device.name}", "parent": node}
    if device.traits:
        target["traits"] = list(device.traits)
    if VGPU in device.resources:
        target["inventories"] = {VGPU: _fields(device.resources[VGPU])}
    return {"from": node, "resources": dict(device.resources), "to": target}


def _fields(total: int) -> dict[str, int | float]:
    """The inventory fields that the driver writes."""
    return {
        "reserved": 0,
        "min_unit": 1,
        "max_unit": total,
        "step_size": 1,
        "allocation_ratio": 1.0,
    }


def _amounts(resources: Mapping[str, int]) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in resources.items())
