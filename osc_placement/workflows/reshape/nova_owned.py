"""Which moves nova-compute would undo: it writes the inventories of its own trees. Pure.

Libvirt's driver writes VCPU, MEMORY_MB and the like on the root at each periodic run, and
VGPU on children that it calls ``<root's name>_<physical GPU>``. A move into that very shape
is one that nova-compute makes itself; any other is undone or doubled within a minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from osc_placement.plan import guards
from osc_placement.workflows.reshape import resolve, snapshot

_OWNER = "OWNER_NOVA"
_COMPUTE = "COMPUTE_"

#: Stands on providers of PCI devices that nova-compute reports, whatever their class.
_DEVICE = "COMPUTE_MANAGED_PCI_DEVICE"

#: What drivers of nova-compute report themselves.
_WRITTEN = frozenset({"VCPU", "PCPU", "MEMORY_MB", "DISK_GB", "VGPU", "MEM_ENCRYPTION_CONTEXT"})


def refusals(seen: snapshot.TreeSnapshot, meant: resolve.Wanted) -> list[str]:
    """Why moves in trees of nova-compute would not last, each with what is written back."""
    owned = owners(seen)
    reasons = [
        f"{meant.document.at(shift.line)}nova-compute owns the tree of"
        f" {seen.name_of(root)} and writes {written} at its next periodic run"
        for shift, root, written in _written_back(seen, meant, owned)
    ]
    reasons += [
        f"{meant.document.at(0)}nova-compute finds {name} by its name, and would make it anew"
        for name in _lost_by_name(seen, meant, owned)
    ]
    anyway = f" (--allow {guards.NOVA_OWNED} to do it anyway)"
    return [reason + anyway for reason in dict.fromkeys(reasons)]


def notes(seen: snapshot.TreeSnapshot, meant: resolve.Wanted) -> list[str]:
    """What to do with nova-compute meanwhile."""
    owned = owners(seen)
    touched = {
        seen.root_of(uuid)
        for shift in meant.shifts
        for uuid in (shift.source, shift.target)
        if uuid in seen.nodes and seen.root_of(uuid) in owned
    }
    names = ", ".join(sorted(seen.name_of(root) for root in touched))
    if not names:
        return []
    return [
        f"nova-compute owns the tree of {names}: stop it before the reshape, and start it only"
        " as a release and with a configuration that report the new shape"
    ]


def owners(seen: snapshot.TreeSnapshot) -> frozenset[str]:
    """The roots of trees that nova-compute owns: their traits say so."""
    return frozenset(seen.root_of(uuid) for uuid, node in seen.inside() if _is_novas(node.traits))


def _is_novas(traits: Iterable[str]) -> bool:
    return any(name == _OWNER or name.startswith(_COMPUTE) for name in traits)


def _written_back(
    seen: snapshot.TreeSnapshot, meant: resolve.Wanted, owned: frozenset[str]
) -> Iterator[tuple[resolve.InventoryMove, str, str]]:
    """``(shift, root, what nova-compute writes)`` of every move that does not last."""
    for shift in meant.shifts:
        # What is where it is now is written there again.
        source, target = (shift.source, shift.resource_class), (shift.target, shift.becomes)
        root = seen.root_of(shift.source) if shift.source in seen.nodes else shift.source
        if root in owned and _is_written(source, seen):
            if not _is_novas_own_shape(shift, root, seen, meant):
                yield shift, root, f"{shift.resource_class} on {seen.name_of(shift.source)}"
        elif shift.target in seen.nodes and _is_written(target, seen):
            goal = seen.root_of(shift.target)
            if goal in owned and goal != root:
                yield shift, goal, f"{shift.becomes} on {seen.name_of(shift.target)}"


def _is_written(place: tuple[str, str], seen: snapshot.TreeSnapshot) -> bool:
    """Whether nova-compute reports a class on a provider, if the tree is its own."""
    uuid, resource_class = place
    is_device = uuid in seen.nodes and _DEVICE in seen.nodes[uuid].traits
    return is_device or resource_class in _WRITTEN


def _lost_by_name(
    seen: snapshot.TreeSnapshot, meant: resolve.Wanted, owned: frozenset[str]
) -> Iterator[str]:
    """Providers that nova-compute made, as their names say, and that get other names."""
    for uuid, node in seen.inside():
        name, root = node.provider.name, seen.root_of(uuid)
        is_novas = root in owned and name.startswith(f"{seen.name_of(root)}_")
        if is_novas and uuid not in meant.deleted and meant.nodes[uuid].provider.name != name:
            yield name


def _is_novas_own_shape(
    shift: resolve.InventoryMove, root: str, seen: snapshot.TreeSnapshot, meant: resolve.Wanted
) -> bool:
    if shift.source == shift.target:
        return (shift.resource_class, shift.becomes) in {("VCPU", "PCPU"), ("PCPU", "VCPU")}
    target = meant.nodes[shift.target].provider
    child = target.parent_uuid == root and target.name.startswith(f"{seen.name_of(root)}_")
    return child and shift.resource_class == shift.becomes == "VGPU"
