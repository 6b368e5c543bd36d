"""``resource provider tree show``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from osc_placement import errors
from osc_placement.client import lookup
from osc_placement.v1 import base
from osc_placement.v1.options import arguments
from osc_placement.v1.output import rows

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.model import provider

#: The first columns of a row of a tree: a table draws the tree.
TABLE_COLUMNS = ("tree",)
DATA_COLUMNS = ("name", "parent", "depth", "kind")

COLUMNS = ("uuid", "generation", "used/capacity", "traits")
LONG_COLUMNS = ("parent_provider_uuid", "aggregates", "inventories")


class ShowResourceProviderTree(base.ReportLister):
    """Show the provider tree of a resource provider

    One row per provider, root first, with used amounts, capacities and traits. A table draws
    the tree; other formats have the columns name, parent, depth and kind instead. Sends three
    requests per provider.
    """

    writes = False
    required_feature = "nested providers"
    example = "openstack resource provider tree show rack1-node7"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)
        parser.add_argument(
            "--long", action="store_true", help="Also show parent, aggregates and inventories"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        from osc_placement.model import provider

        client = self.connect()
        uuid = lookup.provider_uuid(client, parsed_args.uuid)
        found = client.list_providers(in_tree=uuid)
        if not found and (named := lookup.named_like_uuid(client, uuid)):
            found = client.list_providers(in_tree=named)
        if not found:
            raise errors.PlacementError(f"No resource provider with uuid {uuid} found")
        tree = provider.ProviderTree(found)
        is_table = parsed_args.formatter == "table"
        lines, long = draw(tree), parsed_args.long
        values = self.read_each(
            "reading providers", lambda line: _row(client, line[1], long=long), lines
        )
        data = [
            tree_cells(branches, item.name, item.parent_uuid, is_table=is_table) + row
            for (branches, item), row in zip(lines, values, strict=True)
        ]
        columns = (TABLE_COLUMNS if is_table else DATA_COLUMNS) + COLUMNS
        return columns + (LONG_COLUMNS if parsed_args.long else ()), data


def tree_cells(
    branches: str, name: str, parent: str | None, *, is_table: bool, kind: str = "provider"
) -> rows.Row:
    """The values of TABLE_COLUMNS or DATA_COLUMNS; ``branches`` has three characters per level."""
    if is_table:
        return (branches + name,)
    return (name, parent, len(branches) // 3, kind)


def draw(tree: provider.ProviderTree) -> list[tuple[str, provider.Provider]]:
    """``(branches to draw before its name, provider)``, parents before their children."""
    lines: list[tuple[str, provider.Provider]] = []

    def add_children(parent: provider.Provider, indent: str) -> None:
        children = tree.children(parent.uuid)
        for child in children:
            is_last = child is children[-1]
            lines.append((indent + ("└─ " if is_last else "├─ "), child))
            add_children(child, indent + ("   " if is_last else "│  "))

    for root in tree.roots():
        lines.append(("", root))
        add_children(root, "")
    return lines


def _row(client: api.Client, item: provider.Provider, *, long: bool) -> rows.Row:
    """The values of COLUMNS, and of LONG_COLUMNS."""
    inventories = client.list_inventories(item.uuid).inventories
    usages = client.list_usages(item.uuid)
    used = {
        resource_class: {"used": usages.get(resource_class, 0), "capacity": held.capacity}
        for resource_class, held in inventories.items()
    }
    traits = list(client.list_provider_traits(item.uuid).traits)
    row = (item.uuid, item.generation, rows.Usages(used), rows.Lines(traits))
    if not long:
        return row
    aggregates = rows.Lines(list(client.list_aggregates(item.uuid).aggregates))
    fields = {name: held.as_dict() for name, held in inventories.items()}
    return (*row, item.parent_uuid, aggregates, rows.InventoryTotals(fields))
