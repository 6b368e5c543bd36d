"""Which moves nova-compute would undo: it writes the inventories of its own trees. Pure.

Libvirt's driver writes VCPU, MEMORY_MB and the like on the root at each periodic run, and
VGPU on children that it calls ``<root's name>_<physical GPU>``. A move into that very shape
is one that nova-compute makes itself; any other is undone or doubled within a minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from osc_placement.workflows import guard
from osc_placement.workflows.reshape import picture, wanted

_OWNER = "OWNER_NOVA"
_COMPUTE = "COMPUTE_"

#: What drivers of nova-compute report themselves.
_WRITTEN = frozenset({"VCPU", "PCPU", "MEMORY_MB", "DISK_GB", "VGPU", "MEM_ENCRYPTION_CONTEXT"})


def refusals(seen: picture.Picture, meant: wanted.Wanted) -> list[str]:
    """Why moves in trees of nova-compute would not last, each with what is written back."""
    owned = owners(seen)
    return list(
        dict.fromkeys(
            f"{meant.document.at(shift.line)}nova-compute owns the tree of"
            f" {seen.name_of(root)} and writes {written} at its next periodic run"
            f" (--allow {guard.NOVA_OWNED} to do it anyway)"
            for shift, root, written in _written_back(seen, meant, owned)
        )
    )


def notes(seen: picture.Picture, meant: wanted.Wanted) -> list[str]:
    """What to do with nova-compute meanwhile."""
    owned = owners(seen)
    touched = {
        seen.root_of(shift.source)
        for shift in meant.shifts
        if shift.source in seen.nodes and seen.root_of(shift.source) in owned
    }
    names = ", ".join(sorted(seen.name_of(root) for root in touched))
    if not names:
        return []
    return [
        f"nova-compute owns the tree of {names}: stop it before the reshape, and start it only"
        " as a release and with a configuration that report the new shape"
    ]


def owners(seen: picture.Picture) -> frozenset[str]:
    """The roots of trees that nova-compute owns: their traits say so."""
    return frozenset(seen.root_of(uuid) for uuid, node in seen.inside() if _is_novas(node.traits))


def _is_novas(traits: Iterable[str]) -> bool:
    return any(name == _OWNER or name.startswith(_COMPUTE) for name in traits)


def _written_back(
    seen: picture.Picture, meant: wanted.Wanted, owned: frozenset[str]
) -> Iterator[tuple[wanted.Shift, str, str]]:
    """``(shift, root, what nova-compute writes)`` of every move that does not last."""
    for shift in meant.shifts:
        root = seen.root_of(shift.source) if shift.source in seen.nodes else shift.source
        if root not in owned or shift.resource_class not in _WRITTEN:
            continue
        if not _is_novas_own_shape(shift, root, seen, meant):
            # Read from where it is now: that is where it is written again.
            yield shift, root, f"{shift.resource_class} on {seen.name_of(shift.source)}"


def _is_novas_own_shape(
    shift: wanted.Shift, root: str, seen: picture.Picture, meant: wanted.Wanted
) -> bool:
    if shift.source == shift.target:
        return (shift.resource_class, shift.becomes) in {("VCPU", "PCPU"), ("PCPU", "VCPU")}
    target = meant.nodes[shift.target].provider
    child = target.parent_uuid == root and target.name.startswith(f"{seen.name_of(root)}_")
    return child and shift.resource_class == shift.becomes == "VGPU"
