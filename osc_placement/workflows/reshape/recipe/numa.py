"""CPUs and memory of a compute node's root to one provider per NUMA node. Pure.

No release of nova reports this shape, and ``placement reshape`` refuses it for nova's nodes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from osc_placement.model import inventory
from osc_placement.workflows.reshape import snapshot
from osc_placement.workflows.reshape.recipe import recipe

TRAIT = "HW_NUMA_ROOT"

_HEAD = """\
Resources of {node}, from its own provider to one provider per NUMA node: {nodes}.

No release of nova reports this shape: nova-compute writes VCPU, PCPU and MEMORY_MB on {node} \
itself each minute, and counts them twice after this reshape. openstack placement reshape \
therefore refuses it for a node of nova-compute without --allow nova-owned. It is for nodes of \
other services.

Only the host knows which NUMA node a server uses. With libvirt, this writes what --assign-from \
reads:

  for server in $(virsh list --all --uuid); do virsh dumpxml $server; done > evidence

A server with "# <server>: ?" below is undecided; --strategy guesses its NUMA node.

1. Stop the service that writes the inventories of {node}.
2. Check the plan, then apply it:

  openstack placement reshape FILE --dry-run
  openstack placement reshape FILE"""


def plan_numa(
    trees: snapshot.TreeSnapshot,
    root: str,
    nodes: Sequence[recipe.Child],
    evidence: tuple[tuple[str, str], ...] = (),
) -> recipe.Recipe:
    """The recipe for the tree with this root (a UUID); ``nodes`` have the number as their name.

    Each NUMA node gets a part of the reserved amount, in proportion to its total. Errors:
    InvalidInput with all contradictions to the cloud.
    """
    held = trees.nodes[root].inventories
    moving = recipe.Request(
        tuple(_children(nodes, held)), evidence, "NUMA node", "--numa-node", lists_all=True
    )
    name = recipe.plain(trees.nodes[root].provider.name)
    shown = "; ".join(f"{each.name} ({recipe.describe(each.resources)})" for each in nodes)
    return recipe.plan_children(trees, root, moving, _HEAD.format(node=name, nodes=shown))


def _children(nodes: Sequence[recipe.Child], held: inventory.Inventories) -> list[recipe.Child]:
    fields: list[dict[str, dict[str, int | float]]] = [{} for _ in nodes]
    for resource_class, present in held.items():
        totals = [each.resources.get(resource_class, 0) for each in nodes]
        if not present.reserved or sum(totals) != present.total:
            continue
        for index, reserved in enumerate(_shares(present.reserved, totals)):
            if totals[index]:
                fields[index][resource_class] = {"reserved": reserved}
    return [
        recipe.Child(each.name, each.resources, (TRAIT,), fields=mine, suffix=f"numa_{each.name}")
        for each, mine in zip(nodes, fields, strict=True)
    ]


def _shares(amount: int, totals: Sequence[int]) -> list[int]:
    """The amount in proportion to the totals, with the same sum."""
    ends = [amount * end // sum(totals) for end in itertools.accumulate(totals)]
    return [end - start for start, end in itertools.pairwise([0, *ends])]
