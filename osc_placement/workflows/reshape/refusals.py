"""Why a resolved document is refused: deletions and moves that would not work or not last. Pure.

nova-compute writes the inventories of its own trees at each periodic run: libvirt's driver
VCPU, MEMORY_MB and others on the root, VGPU on children with the name ``<root's name>_<physical
GPU>``, and MEM_ENCRYPTION_CONTEXT on children such as ``<root's name>_amd_sev``. A move to this
shape lasts; any other is reverted or duplicated within a minute.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from osc_placement import errors
from osc_placement.model import inventory
from osc_placement.plan import guards
from osc_placement.workflows.reshape import resolve, snapshot

_OWNER = "OWNER_NOVA"
_COMPUTE = "COMPUTE_"

#: The trait of providers of PCI devices, of any class, that nova-compute reports.
_DEVICE = "COMPUTE_MANAGED_PCI_DEVICE"

#: Libvirt's driver reports memory encryption on a child ``<root's name>_<one of these>``.
_ENCRYPTION = "MEM_ENCRYPTION_CONTEXT"
_ENCRYPTED = frozenset({"amd_sev", "amd_sev_es", "amd_sev_snp", "intel_tdx"})

#: The classes that drivers of nova-compute report.
_REPORTED = frozenset({"VCPU", "PCPU", "MEMORY_MB", "DISK_GB", "VGPU", "MEM_ENCRYPTION_CONTEXT"})


class NovaOwned(errors.InvalidInput):
    """Only the guard nova-owned refuses the reshape."""


def check(
    before: snapshot.TreeSnapshot,
    resolved: resolve.Resolved,
    inventories: Mapping[str, inventory.Inventories],
    allow: Collection[str],
    problems: errors.InputErrors,
) -> None:
    """Raise InvalidInput with ``problems`` and all refusals; ``allow`` are the guards to skip.

    ``inventories`` are those after the reshape, by provider.
    """
    problems.reasons += _impossible_deletions(before, resolved, inventories)
    owned = [] if guards.NOVA_OWNED in allow else _nova_owned(before, resolved)
    if owned and not problems:
        raise NovaOwned(owned)
    problems.reasons += owned
    problems.check()


def _impossible_deletions(
    before: snapshot.TreeSnapshot,
    resolved: resolve.Resolved,
    inventories: Mapping[str, inventory.Inventories],
) -> Iterator[str]:
    """Why providers cannot be deleted.

    A plan has one change per provider, so that it cannot create or change a provider and delete it.
    """
    for uuid in sorted(resolved.deleted):
        prefix = f"{resolved.document.at(0)}{resolved.name_of(uuid)} cannot be"
        children = [
            node.provider.name
            for key, node in resolved.nodes.items()
            if node.provider.parent_uuid == uuid and key not in resolved.deleted
        ]
        if inventories[uuid]:
            kept = ", ".join(sorted(inventories[uuid]))
            yield f"{prefix} deleted: it keeps {kept}; move that too"
        if children:
            yield f"{prefix} deleted: it has the children {', '.join(sorted(children))}"
        if uuid not in before.nodes:
            yield f"{prefix} deleted: it does not exist"
        elif _description(resolved.nodes[uuid]) != _description(before.nodes[uuid]):
            yield f"{prefix} changed and deleted in the same plan: do one of it before"


def _description(node: snapshot.Node) -> tuple[object, ...]:
    """What a document may change of a provider."""
    item = node.provider
    return item.name, item.parent_uuid, node.traits, node.aggregates


def _nova_owned(before: snapshot.TreeSnapshot, resolved: resolve.Resolved) -> list[str]:
    """Why changes in trees of nova-compute would not last."""
    owned = _owned_roots(before)
    reasons = [
        f"{resolved.document.at(move.line)}nova-compute owns the tree of"
        f" {before.name_of(root)} and writes {reported} at its next periodic run"
        for move, root, reported in _reverted(before, resolved, owned)
    ]
    reasons += [
        f"{resolved.document.at(0)}nova-compute owns the tree of {before.name_of(root)}"
        f" and writes the total of {resource_class} on {resolved.name_of(uuid)} at its next"
        " periodic run"
        for uuid, resource_class, root in _overwritten_totals(before, resolved, owned)
    ]
    reasons += [
        f"{resolved.document.at(0)}nova-compute finds {name} by its name, and would create it again"
        for name in _lost_names(before, resolved, owned)
    ]
    hint = f" (--allow {guards.NOVA_OWNED} to do it anyway)"
    return [reason + hint for reason in dict.fromkeys(reasons)]


def nova_notes(before: snapshot.TreeSnapshot, resolved: resolve.Resolved) -> list[str]:
    """When to stop and start nova-compute."""
    owned = _owned_roots(before)
    written = {uuid for move in resolved.moves for uuid in (move.source, move.target)}
    written |= {uuid for uuid, _ in resolved.growth}
    changed = {
        before.root_of(uuid)
        for uuid in written
        if uuid in before.nodes and before.root_of(uuid) in owned
    }
    names = ", ".join(sorted(before.name_of(root) for root in changed))
    if not names:
        return []
    return [
        f"nova-compute owns the tree of {names}: stop it before the reshape, and start it only"
        " with a release and a configuration that report the new shape"
    ]


def _owned_roots(before: snapshot.TreeSnapshot) -> frozenset[str]:
    """The roots of the trees that nova-compute owns, as their traits show."""
    return frozenset(
        before.root_of(uuid) for uuid, node in before.inside.items() if _is_novas(node.traits)
    )


def _is_novas(traits: Iterable[str]) -> bool:
    return any(name == _OWNER or name.startswith(_COMPUTE) for name in traits)


def _reverted(
    before: snapshot.TreeSnapshot, resolved: resolve.Resolved, owned: frozenset[str]
) -> Iterator[tuple[resolve.InventoryMove, str, str]]:
    """``(move, root, inventory)`` of each move that nova-compute reverts by writing it."""
    for move in resolved.moves:
        root = before.root_of(move.source) if move.source in before.nodes else move.source
        if root in owned and _is_reported(move.origin, before):
            if not _is_novas_shape(move, root, before, resolved):
                yield move, root, f"{move.resource_class} on {before.name_of(move.source)}"
        elif move.target in before.nodes and _is_reported(move.destination, before):
            other = before.root_of(move.target)
            if other in owned and other != root:
                yield move, other, f"{move.becomes} on {before.name_of(move.target)}"


def _overwritten_totals(
    before: snapshot.TreeSnapshot, resolved: resolve.Resolved, owned: frozenset[str]
) -> Iterator[tuple[str, str, str]]:
    """``(provider, class, root)`` of each given total that nova-compute reports."""
    for uuid, resource_class in sorted(resolved.growth):
        root = _root_after(uuid, resolved)
        if root in owned and _is_reported((uuid, resource_class), before):
            yield uuid, resource_class, root


def _root_after(uuid: str, resolved: resolve.Resolved) -> str:
    """The root of a provider after the reshape; it may be new."""
    parent = resolved.nodes[uuid].provider.parent_uuid
    while parent is not None and parent in resolved.nodes:
        uuid, parent = parent, resolved.nodes[parent].provider.parent_uuid
    return uuid


def _is_reported(place: resolve.Place, before: snapshot.TreeSnapshot) -> bool:
    """Whether nova-compute reports a class on a provider of its own trees."""
    uuid, resource_class = place
    is_device = uuid in before.nodes and _DEVICE in before.nodes[uuid].traits
    return is_device or resource_class in _REPORTED


def _lost_names(
    before: snapshot.TreeSnapshot, resolved: resolve.Resolved, owned: frozenset[str]
) -> Iterator[str]:
    """Providers with a name from nova-compute that get another name."""
    for uuid, node in before.inside.items():
        name, root = node.provider.name, before.root_of(uuid)
        is_novas = root in owned and name.startswith(f"{before.name_of(root)}_")
        if is_novas and uuid not in resolved.deleted and resolved.name_of(uuid) != name:
            yield name


def _is_novas_shape(
    move: resolve.InventoryMove,
    root: str,
    before: snapshot.TreeSnapshot,
    resolved: resolve.Resolved,
) -> bool:
    """Whether nova-compute makes the same move itself."""
    if move.source == move.target:
        return (move.resource_class, move.becomes) in {("VCPU", "PCPU"), ("PCPU", "VCPU")}
    target = resolved.nodes[move.target].provider
    suffix = target.name.removeprefix(f"{before.name_of(root)}_")
    if target.parent_uuid != root or suffix == target.name or move.resource_class != move.becomes:
        return False
    return move.becomes == "VGPU" or (move.becomes == _ENCRYPTION and suffix in _ENCRYPTED)
