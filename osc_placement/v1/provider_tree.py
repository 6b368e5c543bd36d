"""``resource provider tree show``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from osc_placement import errors
from osc_placement.client import lookup
from osc_placement.v1 import arguments, base, rows

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.model import provider

COLUMNS = ("tree", "uuid", "generation", "used/capacity", "traits")


class ShowResourceProviderTree(base.Lister):
    """Show the tree that a resource provider stands in, drawn as a tree

    Root first, each provider with what is used of what it can give, and with its traits.
    Costs three requests per provider.
    """

    required_feature = "nested providers"
    example = "openstack resource provider tree show rack1-node7"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)
        parser.add_argument(
            "--long", action="store_true", help="Show parent, aggregates and inventories too"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        from osc_placement.model import provider

        client = self.connect()
        uuid = lookup.provider_uuid(client, parsed_args.uuid)
        found = client.list_providers(in_tree=uuid)
        if not found:
            raise errors.PlacementError(f"No resource provider with uuid {uuid} found")
        tree = provider.ProviderTree(found)
        data = [
            (*_row(client, mark + item.name, item), *(_long(client, item, parsed_args.long)))
            for mark, item in draw(tree)
        ]
        extra = ("parent_provider_uuid", "aggregates", "inventories") if parsed_args.long else ()
        return COLUMNS + extra, data


def draw(tree: provider.ProviderTree) -> list[tuple[str, provider.Provider]]:
    """``(the branches before its name, provider)``, each parent before its children."""
    lines: list[tuple[str, provider.Provider]] = []
    for root in tree.roots():
        lines.append(("", root))
        lines.extend(_branches(tree, tree.children(root.uuid), ""))
    return lines


def _branches(
    tree: provider.ProviderTree, children: Sequence[provider.Provider], before: str
) -> list[tuple[str, provider.Provider]]:
    lines: list[tuple[str, provider.Provider]] = []
    for position, child in enumerate(children, start=1):
        last = position == len(children)
        lines.append((before + ("└─ " if last else "├─ "), child))
        deeper = before + ("   " if last else "│  ")
        lines.extend(_branches(tree, tree.children(child.uuid), deeper))
    return lines


def _row(client: api.Client, name: str, item: provider.Provider) -> rows.Row:
    inventories = client.list_inventories(item.uuid).inventories
    usages = client.list_usages(item.uuid)
    used = {
        resource_class: f"{usages.get(resource_class, 0)}/{held.capacity}"
        for resource_class, held in inventories.items()
    }
    traits = list(client.list_provider_traits(item.uuid).traits)
    return (name, item.uuid, item.generation, rows.Amounts(used), rows.Lines(traits))


def _long(client: api.Client, item: provider.Provider, wanted: bool) -> rows.Row:
    if not wanted:
        return ()
    aggregates = client.list_aggregates(item.uuid).aggregates
    inventories = client.list_inventories(item.uuid).inventories
    fields = {name: held.as_dict() for name, held in inventories.items()}
    return (item.parent_uuid, rows.Lines(list(aggregates)), rows.InventoryTotals(fields))
