"""``resource provider inventory list | show | delete`` and ``… inventory class set``."""

from __future__ import annotations

import argparse
from typing import Any

from osc_placement import microversion
from osc_placement.client import lookup, retry
from osc_placement.model import inventory
from osc_placement.v1 import arguments, base, rows

RESOURCE_CLASS_HELP = (
    "A standard or deployer-specific class of resources, for example VCPU, MEMORY_MB, DISK_GB"
)

FIELD_HELP = {
    "allocation_ratio": "How many times the total may be allocated: with allocation_ratio 16"
    " and a total of 8 there is room for 128",
    "min_unit": "The smallest amount that one allocation may have",
    "max_unit": "The largest amount that one allocation may have",
    "reserved": "What the provider keeps for its own use",
    "step_size": "Allocations must be multiples of this: with 5, only 5, 10, 15 and so on",
    "total": "What the provider has in all",
}


class ListInventory(base.Lister):
    """List the inventories of a resource provider

    ``--long`` adds capacity, which is ``(total - reserved) * allocation_ratio``, and what of
    it is still free.
    """

    example = "openstack resource provider inventory list rack1-node7"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)
        parser.add_argument("--long", action="store_true", help="Show capacity and free")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        client = self.connect()
        uuid = lookup.provider_uuid(client, parsed_args.uuid)
        inventories = client.list_inventories(uuid).inventories
        usages = client.list_usages(uuid)
        columns: tuple[str, ...] = ("resource_class", *rows.INVENTORY, "used")
        if not parsed_args.long:
            return columns, [
                (*row, usages.get(row[0], 0)) for row in rows.inventory_rows(inventories)
            ]
        return (*columns, "capacity", "free"), [
            (name, *_long(item, usages.get(name, 0))) for name, item in inventories.items()
        ]


def _long(item: inventory.Inventory, used: int) -> rows.Row:
    return (*rows.inventory_row(item), used, item.capacity, item.capacity - used)


class ShowInventory(base.ShowOne):
    """Show the inventory of one resource class of a resource provider"""

    example = "openstack resource provider inventory show rack1-node7 VCPU"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)
        parser.add_argument("resource_class", metavar="<resource_class>", help=RESOURCE_CLASS_HELP)

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        client = self.connect()
        uuid = lookup.provider_uuid(client, parsed_args.uuid)
        item = client.show_inventory(uuid, parsed_args.resource_class)
        used = client.list_usages(uuid).get(parsed_args.resource_class, 0)
        return (*rows.INVENTORY, "used"), (*rows.inventory_row(item), used)


class DeleteInventory(base.Command):
    """Delete one inventory of a resource provider, or all of them

    Inventory that allocations use cannot be deleted.
    """

    example = """\
openstack resource provider inventory delete rack1-node7 \\
    --resource-class VGPU
openstack resource provider inventory delete rack1-node7"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)
        parser.add_argument(
            "--resource-class",
            metavar="<resource_class>",
            help=f"{RESOURCE_CLASS_HELP}. From Placement API 1.5 it may be left out, and then"
            " all inventories of the provider are deleted.",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        client = self.connect()
        if not microversion.supports(client.microversion, "inventories delete"):
            self.require_options(parsed_args, ["--resource-class"])
        uuid = lookup.provider_uuid(client, parsed_args.uuid)
        if parsed_args.resource_class is None:
            client.delete_inventories(uuid)
        else:
            client.delete_inventory(uuid, parsed_args.resource_class)


class SetClassInventory(base.ShowOne):
    """Replace the inventory of one resource class of a resource provider

    What is not given gets the default of the API, not what it was before. The class must
    be in the provider's inventory already.
    """

    example = """\
openstack resource provider inventory class set rack1-node7 VCPU \\
    --total 16 --max_unit 4 --reserved 1"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)
        parser.add_argument("resource_class", metavar="<class>", help=RESOURCE_CLASS_HELP)
        for field in inventory.FIELDS:
            parser.add_argument(
                f"--{field}",
                metavar=f"<{field}>",
                required=field == "total",
                type=int if field in inventory.INTEGER_FIELDS else float,
                help=FIELD_HELP[field],
            )

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        client = self.connect()
        uuid = lookup.provider_uuid(client, parsed_args.uuid)
        given = {field: getattr(parsed_args, field) for field in inventory.FIELDS}
        item = inventory.Inventory.from_dict(
            {field: value for field, value in given.items() if value is not None}
        )

        def attempt() -> inventory.Inventory:
            generation = client.show_provider(uuid).generation
            return client.update_inventory(uuid, parsed_args.resource_class, generation, item)

        return rows.INVENTORY, rows.inventory_row(retry.on_conflict(attempt))
