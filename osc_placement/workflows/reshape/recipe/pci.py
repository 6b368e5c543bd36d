"""PCI devices in the inventory of a compute node's root to one provider per device. Pure.

With ``[pci] report_in_placement`` nova-compute names a provider ``<node>_<PCI address>``, and gives
all virtual functions of a physical function to its provider.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from osc_placement.workflows.reshape import snapshot
from osc_placement.workflows.reshape.recipe import children, evidence, yaml_writer

#: The traits that nova-compute gives each provider of a PCI device.
TRAITS = ("COMPUTE_MANAGED_PCI_DEVICE", children.OWNER)

_ID = re.compile(r"([0-9a-f]{4}):([0-9a-f]{4})", re.IGNORECASE)

_HEAD = """\
PCI devices of {node}, from its own provider to one provider per device: {devices}.

Nova reports no PCI device on the node itself: an operator did, as in provider.yaml. Nova \
allocates devices with their own providers only to servers with a PCI alias in their flavor.

Only the host knows which device a server uses. On {node}, this writes what --assign-from reads:

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


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """``devices`` have an address each, ``becomes`` the new classes of their resources.

    ``evidence`` are pairs of a consumer's UUID and the address of a device.
    """

    devices: tuple[children.Child, ...]
    becomes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    evidence: tuple[tuple[str, str], ...] = ()


def address(text: str) -> str:
    """``0000:81:00.0``, also for ``pci_0000_81_00_0``; any other text is unchanged."""
    return evidence.pci_address(text.removeprefix("pci_")) or text


def class_name(text: str) -> str:
    """``CUSTOM_PCI_10DE_1EB8``, nova's class of the devices ``10de:1eb8``; or a given class."""
    found = _ID.fullmatch(text)
    return f"CUSTOM_PCI_{found[1]}_{found[2]}".upper() if found else text


def plan_pci(trees: snapshot.TreeSnapshot, root: str, request: Request) -> yaml_writer.Recipe:
    """The recipe for the tree with this root (a UUID).

    Errors: InvalidInput with all contradictions to the cloud.
    """
    devices = tuple(_child(device, request.becomes) for device in request.devices)
    classes = {name for device in devices for name in device.resources}
    moving = children.Request(
        devices,
        request.evidence,
        "device",
        "--device",
        counted=next(iter(classes)) if len(classes) == 1 else None,
        lists_all=True,
    )
    name = yaml_writer.plain(trees.nodes[root].provider.name)
    shown = ", ".join(f"{each.name} ({children.describe(each.resources)})" for each in devices)
    return children.plan_children(trees, root, moving, _HEAD.format(node=name, devices=shown))


def _child(device: children.Child, becomes: Mapping[str, str]) -> children.Child:
    new = {name: becomes[name] for name in device.resources if name in becomes}
    return dataclasses.replace(
        device,
        traits=(*TRAITS, *device.traits),
        becomes=new,
        fields={
            new.get(name, name): children.driver_fields(total)
            for name, total in device.resources.items()
        },
    )
