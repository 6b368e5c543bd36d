# SPDX-License-Identifier: Apache-2.0
"""Recipes that move resources of a node to a child per GPU, PCI device or model of SEV. Pure.

The names of the children are those of nova's libvirt driver: ``<node>_pci_0000_84_00_0`` for a
physical GPU; ``<node>_0000:81:00.0`` for a PCI device with ``[pci]report_in_placement``, where all
virtual functions of a physical function belong to its provider; ``<node>_amd_sev`` and so on for a
model of memory encryption.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence

from osc_placement.nova import pci
from osc_placement.nova.flavor import MEM_ENCRYPTION_CONTEXT
from osc_placement.scheduling import traits
from osc_placement.workflows.reshape import evidence, recipes, snapshot

VGPU = "VGPU"

_GPU_HEAD = """\
VGPU of {node}, from its own provider to one provider per physical GPU: {children}.

Only the host knows which GPU a server uses. On {node}, this writes what --assign @evidence reads:

  for server in $(virsh list --all --uuid); do virsh dumpxml $server; done > evidence
  mdevctl list >> evidence

A server with "# <server>: ?" below is undecided; --strategy guesses its GPU.

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


#: ``(consumer's UUID, a child's name)``, as a host reports them
Evidence = tuple[tuple[str, str], ...]


def device_name(text: str) -> str:
    """Libvirt's name of a PCI device: ``pci_0000_84_00_0`` also for ``0000:84:00.0``."""
    address = evidence.pci_address(text)
    return text if address is None else "pci_" + re.sub("[:.]", "_", address)


def plan_vgpu(
    trees: snapshot.TreeSnapshot,
    root: str,
    devices: Sequence[recipes.Child],
    evidence: Evidence = (),
) -> recipes.Recipe:
    """The recipe for the tree with this root (a UUID); a GPU has its name in libvirt.

    Errors: InvalidInput with all contradictions to the cloud.
    """
    gpus = tuple(
        dataclasses.replace(device, fields={VGPU: recipes.driver_fields(device.resources[VGPU])})
        if VGPU in device.resources
        else device
        for device in devices
    )
    moving = recipes.ChildrenRequest(gpus, evidence, "device", counted=VGPU)
    return recipes.plan_children(trees, root, moving, _GPU_HEAD, _described(gpus))


def _described(children: Iterable[recipes.Child]) -> str:
    return ", ".join(f"{child.name} ({recipes.describe(child.resources)})" for child in children)


_ID = re.compile(r"([0-9a-f]{4}):([0-9a-f]{4})", re.IGNORECASE)

_PCI_HEAD = """\
PCI devices of {node}, from its own provider to one provider per device: {children}.

Nova reports no PCI device on the node itself: an operator did, as in provider.yaml. Nova \
allocates devices with their own providers only to servers with a PCI alias in their flavor.

Only the host knows which device a server uses. On {node}, this writes what \
--assign @evidence reads:

  for server in $(virsh list --all --uuid); do virsh dumpxml $server; done > evidence
  for device in $(virsh nodedev-list --cap pci); do virsh nodedev-dumpxml $device; done >> evidence

A server with "# <server>: ?" below is undecided; --strategy guesses its device.

1. Create new resource classes: openstack resource class set CLASS
2. Stop nova-compute on {node}, and remove these inventories from its provider.yaml.
3. Check the plan, then apply it:

  openstack placement reshape FILE --dry-run
  openstack placement reshape FILE

4. In nova.conf of {node} set [pci] report_in_placement = true, and device_spec for each device \
with the same resource_class and traits, and start nova-compute. It finds the providers by their \
names. Without that option it refuses to update a node with such providers."""


def address(text: str) -> str:
    """``0000:81:00.0``, also for ``pci_0000_81_00_0``; any other text is unchanged."""
    return evidence.pci_address(text.removeprefix("pci_")) or text


def class_name(text: str) -> str:
    """``CUSTOM_PCI_10DE_1EB8``, nova's class of the devices ``10de:1eb8``; or a given class."""
    match = _ID.fullmatch(text)
    return f"CUSTOM_PCI_{match[1]}_{match[2]}".upper() if match else text


def plan_pci(
    trees: snapshot.TreeSnapshot,
    root: str,
    devices: Sequence[recipes.Child],
    becomes: Mapping[str, str],
    evidence: Evidence = (),
) -> recipes.Recipe:
    """The recipe for the tree with this root (a UUID).

    A device has its address as name; ``becomes`` are the new classes of resources. Errors:
    InvalidInput with all contradictions to the cloud.
    """
    children = tuple(_device_child(device, becomes) for device in devices)
    classes = {name for device in children for name in device.resources}
    moving = recipes.ChildrenRequest(
        children,
        evidence,
        "device",
        counted=next(iter(classes)) if len(classes) == 1 else None,
        lists_all=True,
    )
    return recipes.plan_children(trees, root, moving, _PCI_HEAD, _described(children))


def _device_child(device: recipes.Child, becomes: Mapping[str, str]) -> recipes.Child:
    new = {name: becomes[name] for name in device.resources if name in becomes}
    return dataclasses.replace(
        device,
        traits=(pci.MANAGED, traits.OWNER, *device.traits),
        becomes=new,
        fields={
            new.get(name, name): recipes.driver_fields(total)
            for name, total in device.resources.items()
        },
    )


_SEV_HEAD = """\
MEM_ENCRYPTION_CONTEXT of {node}, from its own provider to one provider per model of memory \
encryption: {children}.

A release of nova-compute that reports these providers makes the same move for amd-sev when it \
starts. This document is for moves before that, and for several models.

1. Stop nova-compute on {node}.
2. Check the plan, then apply it:

  openstack placement reshape FILE --dry-run
  openstack placement reshape FILE

3. Start nova-compute of the new release. It finds the providers by their names, and writes the \
number of encrypted servers that the host supports."""

_EVIDENCE = """\
Only the host knows which model a server uses. On {node}, this writes what --assign @evidence reads:

  for server in $(virsh list --all --uuid); do virsh dumpxml $server; done > evidence

A server with "# <server>: ?" below is undecided; --strategy guesses its model."""


def plan_sev(
    trees: snapshot.TreeSnapshot,
    root: str,
    models: Mapping[str, int],
    evidence: Evidence = (),
) -> recipes.Recipe:
    """The recipe for the tree with this root (a UUID).

    ``models`` are the amounts by model; without them all is AMD SEV, the model that nova had
    before it reported the models. Errors: InvalidInput with all contradictions to the cloud.
    """
    node = trees.nodes[root]
    present = node.inventories.get(MEM_ENCRYPTION_CONTEXT)
    models = models or {"amd-sev": present.total if present is not None else 0}
    moving = recipes.ChildrenRequest(
        tuple(_model_child(model, total) for model, total in models.items()),
        evidence,
        "model",
        counted=MEM_ENCRYPTION_CONTEXT,
    )
    shown = ", ".join(f"{model} ({total})" for model, total in models.items())
    head = f"{_SEV_HEAD}\n\n{_EVIDENCE}" if len(models) > 1 else _SEV_HEAD
    return recipes.plan_children(trees, root, moving, head, shown)


def _model_child(model: str, total: int) -> recipes.Child:
    return recipes.Child(
        model,
        {MEM_ENCRYPTION_CONTEXT: total},
        (traits.ENCRYPTION_MODELS[model][1], traits.OWNER),
        # A server uses one.
        fields={MEM_ENCRYPTION_CONTEXT: recipes.driver_fields(total, max_unit=1)},
        suffix=model.replace("-", "_"),
    )
