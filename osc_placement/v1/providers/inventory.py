"""``resource provider inventory list | show | delete | amend`` and ``… inventory class set``."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from osc_placement import errors, microversion
from osc_placement.client import lookup, retry
from osc_placement.model import inventory
from osc_placement.plan import guards as plan_guards
from osc_placement.v1 import base, plan_command
from osc_placement.v1.options import arguments, selector
from osc_placement.v1.output import rows

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.plan.plan import ObservedPlan

RESOURCE_CLASS_HELP = (
    "A standard or deployer-specific class of resources, for example VCPU, MEMORY_MB, DISK_GB"
)

FIELD_HELP = {
    "allocation_ratio": "How many times the total can be allocated: a total of 8 with"
    " allocation_ratio 16 has a capacity of 128",
    "min_unit": "The smallest amount of one allocation",
    "max_unit": "The largest amount of one allocation",
    "reserved": "The amount that the provider keeps for its own use",
    "step_size": "Amounts of allocations must be multiples of this: with 5, only 5, 10, 15 ...",
    "total": "The total amount of the provider",
}


class ListInventory(base.Lister):
    """List the inventories of a resource provider

    ``--long`` adds capacity, which is ``(total - reserved) * allocation_ratio``, and the
    free part of it.
    """

    writes = False
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

    writes = False
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

    Inventory with allocations cannot be deleted.
    """

    hints = MappingProxyType(
        {
            base.WORD: "openstack resource provider inventory delete <provider>"
            f" --resource-class {base.WORD}"
        }
    )
    example = """\
openstack resource provider inventory delete rack1-node7 \\
    --resource-class VGPU
openstack resource provider inventory delete rack1-node7"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)
        parser.add_argument(
            "--resource-class",
            metavar="<resource_class>",
            help=f"{RESOURCE_CLASS_HELP}. Optional from Placement API 1.5: without it all"
            " inventories of the provider are deleted.",
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

    A field that is not given gets the default of the API, not its previous value. The class
    must already be in the provider's inventory. A one-time-use device that a server has stays
    reserved, unless --allow one-time-use permits its release.
    """

    guards = (plan_guards.ONE_TIME_USE,)
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
            present = client.list_inventories(uuid)
            renewed = {**present.inventories, parsed_args.resource_class: item}
            problems = errors.InputErrors(
                released(client, uuid, present.inventories, renewed, parsed_args.allow)
            )
            problems.check()
            name, generation = parsed_args.resource_class, present.generation
            return client.update_inventory(uuid, name, generation, item)

        return rows.INVENTORY, rows.inventory_row(retry.on_conflict(attempt))


def released(
    client: api.Client,
    uuid: str,
    before: inventory.Inventories,
    after: inventory.Inventories,
    allow: Collection[str],
) -> list[str]:
    """Why a write must not release a one-time-use device; no other guard applies.

    Requests: none, if no class is reserved as a whole; else those of ``read_refusals``.
    """
    if not any(0 < item.total <= item.reserved for item in before.values()):
        return []
    from osc_placement.plan.kinds import inventories

    allowed = {*plan_guards.ALL_BUT_DEVICES, *allow}
    return [
        str(reason) for reason in inventories.read_refusals(client, uuid, before, after, allowed)
    ]


class AmendInventory(plan_command.SelectorCommand):
    """Change inventory fields of one or more resource providers

    Fields that are not given do not change. A value can be relative (``+=2``, ``-=2``,
    ``*=0.9``): the command computes the absolute value once, when it first reads the
    provider, so that a repeated write never adds twice; amounts are rounded down. The command
    skips a change that would put a provider over its capacity, or reserve more than the
    total, unless --allow permits it.
    """

    guards = (
        plan_guards.ONE_TIME_USE,
        plan_guards.OVER_CAPACITY,
        plan_guards.RESERVED_ABOVE_TOTAL,
        plan_guards.MANY,
    )
    limits_removals = True
    limits_capacity = True
    has_default_limit = False
    limited = "the capacity of a resource class, summed over the selected providers"
    recorded_arguments = ("resource", "create", "max_percent")
    example = """\
openstack resource provider inventory amend --member-of <aggregate> \\
    --resource VCPU:allocation_ratio=4 \\
    --resource MEMORY_MB:reserved+=1024 --dry-run
openstack resource provider inventory amend rack1-node7 \\
    --resource DISK_GB:total*=0.9"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--resource",
            metavar="<resource_class>:<field>=<value>",
            action="append",
            required=True,
            help="An inventory field (total, reserved, min_unit, max_unit, step_size,"
            " allocation_ratio) and its new value; ``+=``, ``-=`` and ``*=`` are relative. May"
            " be repeated.",
        )
        parser.add_argument(
            "--create",
            action="store_true",
            help="Create the inventory of a class that a provider does not have; a total is"
            " required",
        )
        selector.add_selector(parser)
        self.add_change_options(parser)

    def plan(self, run: plan_command.Run, parsed_args: argparse.Namespace) -> ObservedPlan:
        from osc_placement.workflows import batch

        return batch.plan_amend(
            run.client,
            self.selected,
            expressions=parsed_args.resource,
            create=parsed_args.create,
            allow=parsed_args.allow,
            context=run.context,
        )
