"""VGPU of a compute node's root to one provider per physical GPU, as libvirt's driver has it.

Pure. The driver calls a GPU's provider ``<node>_<GPU>``, the GPU by libvirt's name for its
PCI device: ``cn1_pci_0000_84_00_0``.
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
VGPU of {node}, from its own provider to one for each physical GPU: {devices}.

Which GPU a server uses is known on its host alone. On {node}, this prints a line for each \
VGPU of a server, as --assign-from takes them:

  for server in $(virsh list --all --uuid); do
    for mdev in $(virsh dumpxml $server |
        sed -n "/type='mdev'/,/<.hostdev>/s/.*uuid='\\([^']*\\)'.*/\\1/p"); do
      gpu=$(basename $(dirname $(readlink -f /sys/bus/mdev/devices/$mdev)))
      echo $server=pci_$(echo $gpu | tr :. __)
    done
  done

(mdevctl list tells the same of each mdev; /sys/class/mdev_bus has the GPUs.) What stands \
below as "# <server>: ?" is not decided; with --strategy it is guessed.

1. Stop nova-compute on {node}: it writes the inventories of this tree every minute.
2. Look, and do it:

  openstack placement reshape FILE --dry-run
  openstack placement reshape FILE

3. Start nova-compute with [devices] enabled_mdev_types set for these GPUs. It writes VGPU of \
each GPU on the provider of this name, with the total that the driver tells, and none on \
{node} itself. Where a name or a total differs it makes other providers, so compare them with \
what it logs.

To take it back: stop nova-compute, and openstack placement plan undo with the plan file that \
the reshape names."""


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """A physical GPU: libvirt's name of it, what it offers, traits that its provider gets."""

    name: str
    resources: Mapping[str, int]
    traits: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """``evidence`` are pairs of a consumer's UUID and a device's name, as a host tells them."""

    devices: tuple[Device, ...]
    evidence: tuple[tuple[str, str], ...] = ()


def device_name(text: str) -> str:
    """Libvirt's name of a PCI device: ``pci_0000_84_00_0`` also for ``0000:84:00.0``."""
    if _PCI.fullmatch(text) is None:
        return text
    return "pci_" + re.sub("[:.]", "_", text.lower())


def plan_vgpu(seen: snapshot.TreeSnapshot, root: str, request: Request) -> yaml_writer.Recipe:
    """The recipe for the tree with this root (a UUID).

    Errors: InvalidInput with everything that does not agree with the cloud.
    """
    faults = errors.InputErrors()
    node = seen.nodes[root]
    faults.reasons += _disagreeing(node, request.devices)
    assigned = dict(_assigned(seen, root, request, faults))
    faults.check()
    name = node.provider.name
    using = _using(seen, root, _classes(request))
    choice = {item: amounts for item, amounts in using.items() if _has_choice(amounts, request)}
    return yaml_writer.Recipe(
        tuple(_head(name, request.devices)),
        {"moves": [_move(name, each) for each in request.devices]},
        {item: _places(name, assigned[item]) for item in using if item in assigned},
        tuple(item for item in choice if item not in assigned),
        {item: _amounts(amounts) for item, amounts in using.items()},
    )


def _places(node: str, devices: Mapping[str, int]) -> Any:
    """Where a consumer is: on one provider with all, or with so many VGPU on each."""
    named = {f"{node}_{device}": amount for device, amount in devices.items()}
    return {VGPU: named} if len(named) > 1 else next(iter(named))


def _head(name: str, devices: Iterable[Device]) -> Iterator[str]:
    told = ", ".join(f"{each.name} ({_amounts(each.resources)})" for each in devices)
    yield from _HEAD.format(node=yaml_writer.plain(name), devices=told).split("\n\n")


def _disagreeing(node: snapshot.Node, devices: tuple[Device, ...]) -> Iterator[str]:
    name = node.provider.name
    names = [each.name for each in devices]
    for twice in sorted({each for each in names if names.count(each) > 1}):
        yield f"the device {twice} is given more than once"
    for resource_class in dict.fromkeys(one for each in devices for one in each.resources):
        held = node.inventories.get(resource_class)
        given = sum(each.resources.get(resource_class, 0) for each in devices)
        if held is None:
            offered = ", ".join(sorted(node.inventories)) or "nothing"
            yield f"{name} itself offers no {resource_class}: it offers {offered}"
        elif held.total != given:
            yield (
                f"{name} offers {held.total} {resource_class} and the devices {given}: a reshape"
                " moves resources, it makes and ends none ('openstack resource provider"
                " inventory amend' changes totals)"
            )


def _assigned(
    seen: snapshot.TreeSnapshot, root: str, request: Request, faults: errors.InputErrors
) -> Iterator[tuple[str, dict[str, int]]]:
    """``(consumer, {device: how often it was named})`` of evidence that makes sense.

    A host names a device once for each VGPU. The rest are faults.
    """
    known = {each.name for each in request.devices}
    devices: dict[str, dict[str, int]] = {}
    for consumer, device in request.evidence:
        told = devices.setdefault(consumer, {})
        told[device] = told.get(device, 0) + 1
    using = _using(seen, root, _classes(request))
    for consumer, told in devices.items():
        if consumer not in using:
            faults.add(f"consumer {consumer} has none of what moves")
        elif unknown := sorted(told.keys() - known):
            faults.add(f"consumer {consumer} uses {unknown[0]}, which is no --device")
        elif len(told) > 1 and sum(told.values()) != using[consumer].get(VGPU, 0):
            faults.add(
                f"consumer {consumer} uses {_counted(told)}, and has"
                f" {_amounts(using[consumer])}: name a device once for each VGPU"
            )
        else:
            yield consumer, told


def _counted(devices: Mapping[str, int]) -> str:
    return " and ".join(f"{device} {count} times" for device, count in sorted(devices.items()))


def _classes(request: Request) -> set[str]:
    return {name for each in request.devices for name in each.resources}


def _using(
    seen: snapshot.TreeSnapshot, root: str, classes: Iterable[str]
) -> dict[str, dict[str, int]]:
    """``{consumer: what it has of these classes on the root}``, by UUID."""
    found: dict[str, dict[str, int]] = {}
    for resource_class in sorted(classes):
        for consumer, amount in seen.holding(root, resource_class).items():
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
    """As the driver writes them."""
    return {
        "reserved": 0,
        "min_unit": 1,
        "max_unit": total,
        "step_size": 1,
        "allocation_ratio": 1.0,
    }


def _amounts(resources: Mapping[str, int]) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in resources.items())
