"""VGPU of a compute node's root to one provider per physical GPU, as libvirt's driver reports it.

Pure. The driver names a GPU's provider ``<node>_<GPU>``, with libvirt's name for the PCI device:
``cn1_pci_0000_84_00_0``.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from osc_placement.workflows.reshape import snapshot
from osc_placement.workflows.reshape.recipe import children, evidence, yaml_writer

VGPU = "VGPU"

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
    address = evidence.pci_address(text)
    return text if address is None else "pci_" + re.sub("[:.]", "_", address)


def plan_vgpu(trees: snapshot.TreeSnapshot, root: str, request: Request) -> yaml_writer.Recipe:
    """The recipe for the tree with this root (a UUID).

    Errors: InvalidInput with all contradictions to the cloud.
    """
    gpus = tuple(map(_child, request.devices))
    name = trees.nodes[root].provider.name
    shown = ", ".join(f"{each.name} ({children.describe(each.resources)})" for each in gpus)
    head = _HEAD.format(node=yaml_writer.plain(name), devices=shown)
    moving = children.Request(gpus, request.evidence, "device", "--device", counted=VGPU)
    return children.plan_children(trees, root, moving, head)


def _child(device: Device) -> children.Child:
    fields = {}
    if VGPU in device.resources:
        fields[VGPU] = children.driver_fields(device.resources[VGPU])
    return children.Child(device.name, device.resources, device.traits, fields=fields)
