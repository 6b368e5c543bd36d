# SPDX-License-Identifier: Apache-2.0
"""``resource provider inventory list | show | set | amend | delete`` and ``… class set``."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from osc_placement import errors, microversion
from osc_placement.client import lookup, retry
from osc_placement.model import inventory
from osc_placement.model.inventory import FIELDS
from osc_placement.plan.guards import (
    ALL_BUT_DEVICES,
    MANY,
    NOTHING_LEFT,
    ONE_TIME_USE,
    OVER_CAPACITY,
    RESERVED_ABOVE_TOTAL,
)
from osc_placement.v1.common import arguments, base, plan_command
from osc_placement.v1.output import rows
from osc_placement.v1.resources import provider_aggregate

if TYPE_CHECKING:
    from osc_placement.client import api, responses
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


def _ratio(text: str) -> float:
    """An argparse type: a finite number. A guard would take nan and inf for a capacity of 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isfinite(number):
        return number
    raise argparse.ArgumentTypeError(f"invalid float value: {text!r}")


class ListInventory(base.Lister):
    """List the inventories of a resource provider

    ``--long`` adds capacity, which is ``(total - reserved) * allocation_ratio``, and the
    free part of it.
    """

    writes = False
    example = "openstack resource provider inventory list rack1-node7"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)
        arguments.add_flag(parser, "--long", "Show capacity and free")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        client = self.connect()
        uuid = lookup.provider_uuid(client, parsed_args.uuid)
        inventories = client.list_inventories(uuid).inventories
        usages = client.list_usages(uuid)
        columns = ("resource_class", *FIELDS, "used")
        data = [(*row, usages.get(row[0], 0)) for row in _rows(inventories)]
        if not parsed_args.long:
            return columns, data
        capacities = [item.capacity for item in inventories.values()]
        return (*columns, "capacity", "free"), [
            (*row, capacity, capacity - row[-1])
            for row, capacity in zip(data, capacities, strict=True)
        ]


def _rows(inventories: inventory.Inventories) -> list[rows.Row]:
    """The resource class and the fields of each inventory."""
    return [(name, *item.as_dict().values()) for name, item in inventories.items()]


class ShowInventory(base.ShowOne):
    """Show the inventory of one resource class of a resource provider"""

    writes = False
    example = "openstack resource provider inventory show rack1-node7 VCPU"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)
        parser.add_argument("resource_class", metavar="<resource_class>", help=RESOURCE_CLASS_HELP)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Fields:
        client = self.connect()
        uuid = lookup.provider_uuid(client, parsed_args.uuid)
        item = client.show_inventory(uuid, parsed_args.resource_class)
        used = client.list_usages(uuid).get(parsed_args.resource_class, 0)
        return (*FIELDS, "used"), (*item.as_dict().values(), used)


class DeleteInventory(base.Command):
    """Delete one inventory of a resource provider, or all of them

    Inventory with allocations cannot be deleted.
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

    guards = (ONE_TIME_USE, MANY)
    example = """\
openstack resource provider inventory class set rack1-node7 VCPU \\
    --total 16 --max_unit 4 --reserved 1"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)
        parser.add_argument("resource_class", metavar="<class>", help=RESOURCE_CLASS_HELP)
        for field in FIELDS:
            parser.add_argument(
                f"--{field}",
                metavar=f"<{field}>",
                required=field == "total",
                type=int if field in inventory.INTEGER_FIELDS else _ratio,
                help=FIELD_HELP[field],
            )
        arguments.add_max_percent(parser, "the capacity of the class")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Fields:
        client = self.connect()
        uuid = lookup.provider_uuid(client, parsed_args.uuid)
        values = {field: getattr(parsed_args, field) for field in FIELDS}
        item = inventory.Inventory.from_dict(
            {field: value for field, value in values.items() if value is not None}
        )

        def attempt() -> inventory.Inventory:
            present = client.list_inventories(uuid)
            renewed = {**present.inventories, parsed_args.resource_class: item}
            errors.InputErrors(
                _refused(client, uuid, present.inventories, renewed, parsed_args)
            ).check()
            name, generation = parsed_args.resource_class, present.generation
            return client.update_inventory(uuid, name, generation, item)

        return FIELDS, tuple(retry.on_conflict(attempt).as_dict().values())


def _refused(
    client: api.Client,
    uuid: str,
    before: inventory.Inventories,
    after: inventory.Inventories,
    parsed_args: argparse.Namespace,
) -> list[str]:
    """Why a write is refused: it releases a one-time-use device, or takes more than --max-percent.

    No other guard applies. Requests: none, if no class is reserved as a whole; else those of
    ``read_refusals``.
    """
    from osc_placement.plan import removal_limit
    from osc_placement.plan.kinds import inventories

    limit, allow = parsed_args.max_percent, parsed_args.allow
    above_limit = removal_limit.refusal_of_inventories(before, after, limit, allow)
    refused = [above_limit.text] if above_limit else []
    if any(0 < item.total <= item.reserved for item in before.values()):
        allowed = {*ALL_BUT_DEVICES, *allow}
        refused += map(str, inventories.read_refusals(client, uuid, before, after, allowed))
    return refused


class AmendInventory(plan_command.SelectorCommand):
    """Change inventory fields of one or more resource providers

    Fields that are not given do not change. A value can be relative (``+=2``, ``-=2``,
    ``*=0.9``): the command computes the absolute value once, when it first reads the
    provider, so that a repeated write never adds twice; amounts are rounded down. The command
    skips a change that would put a provider over its capacity, leave it no capacity of
    a class, or reserve more than the total, unless --allow permits it.
    """

    guards = (
        ONE_TIME_USE,
        OVER_CAPACITY,
        RESERVED_ABOVE_TOTAL,
        NOTHING_LEFT,
        MANY,
    )
    limits_capacity = True
    has_default_limit = False
    limited = "the capacity of a resource class, summed over the selected providers"
    example = """\
openstack resource provider inventory amend --member-of <aggregate> \\
    --resource VCPU:allocation_ratio=4 \\
    --resource MEMORY_MB:reserved+=1024 --dry-run
openstack resource provider inventory amend rack1-node7 \\
    --resource DISK_GB:total*=0.9"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_repeated(
            parser,
            "--resource",
            "<resource_class>:<field>=<value>",
            "An inventory field (total, reserved, min_unit, max_unit, step_size,"
            " allocation_ratio) and its new value; ``+=``, ``-=`` and ``*=`` are relative.",
            required=True,
        )
        arguments.add_flag(
            parser,
            "--create",
            "Create the inventory of a class that a provider does not have; a total is required",
        )
        arguments.add_selector(parser)
        self.add_change_options(parser)

    def plan(self, run: plan_command.CommandRun, parsed_args: argparse.Namespace) -> ObservedPlan:
        from osc_placement.workflows.batch import batch

        return batch.plan_amend(
            run.client,
            self.selected,
            expressions=parsed_args.resource,
            create=parsed_args.create,
            allow=parsed_args.allow,
            context=run.context,
        )


#: The fields that the command line gives: ``{resource class: {field: value}}``.
Given = Mapping[str, Mapping[str, float]]

_ACTION = "set inventory"


class SetInventory(base.Lister):
    """Replace the inventories of a resource provider

    A class that is not given is deleted, and a field that is not given gets the default of
    the API. With --amend, everything that is not given stays. A resource without a field is
    the total: VCPU=16 is VCPU:total=16. A one-time-use device that a server has stays
    reserved, unless --allow one-time-use permits its release.
    """

    guards = (ONE_TIME_USE, MANY)
    example = """\
openstack resource provider inventory set rack1-node7 \\
    --resource VCPU=16 --resource MEMORY_MB=2048 \\
    --resource MEMORY_MB:step_size=128
openstack resource provider inventory set <aggregate> --aggregate --amend \\
    --resource VCPU:allocation_ratio=4.0 --dry-run"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser, "; with --aggregate, UUID of an aggregate")
        fields = "; ".join(f"{field} - {text}" for field, text in FIELD_HELP.items())
        arguments.add_repeated(
            parser,
            "--resource",
            "<resource_class>:<inventory_field>=<value>",
            f"{RESOURCE_CLASS_HELP}; with a field and its value. May be"
            f" repeated. Fields: {fields}.",
        )
        arguments.add_flag(
            parser,
            "--aggregate",
            "Set the inventories of every member of the aggregate."
            + arguments.since("provider member_of"),
        )
        arguments.add_flag(parser, "--amend", "Do not change what is not given")
        arguments.add_flag(
            parser,
            "--dry-run",
            "Show the new inventories, or why they would be refused; change nothing",
        )
        arguments.add_max_percent(
            parser, "the capacity of a resource class, summed over the providers,"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        required = [("provider member_of", "--aggregate")] if parsed_args.aggregate else []
        client = self.connect(required)
        problems = errors.InputErrors()
        fields_of = parse(parsed_args.resource, problems)
        uuid = parsed_args.uuid
        with problems.collected():
            uuid = uuid if parsed_args.aggregate else lookup.provider_uuid(client, uuid)
        problems.check()
        columns: tuple[str, ...] = ("resource_class", *FIELDS)
        if parsed_args.aggregate:
            data = self._set_members(client, fields_of, parsed_args)
            return ("resource_provider", *columns), data
        set_one = _preview if parsed_args.dry_run else _set
        return columns, set_one(client, uuid, fields_of, parsed_args)

    def _set_members(
        self, client: api.Client, fields_of: Given, parsed_args: argparse.Namespace
    ) -> list[rows.Row]:
        members = provider_aggregate.members(client, parsed_args.uuid)
        from osc_placement.workflows.batch import batch

        amend = parsed_args.amend
        if not parsed_args.dry_run or parsed_args.max_percent is not None:
            planned = batch.plan_set_inventories(
                client,
                members,
                lambda present: target_of(present, fields_of, amend=amend),
                exactly=not amend,
                allow=parsed_args.allow,
            )
            planned = provider_aggregate.limited(client, planned, parsed_args)
        if parsed_args.dry_run:
            # The limit is one of the sum over the members, not of each of them.
            single = argparse.Namespace(**{**vars(parsed_args), "max_percent": None})
            return provider_aggregate.preview_each(
                members, _ACTION, lambda uuid: _preview(client, uuid, fields_of, single)
            )
        return provider_aggregate.apply_each(
            client, members, _ACTION, planned, lambda state: _rows(state.inventories())
        )


def parse(texts: Iterable[str], problems: errors.InputErrors) -> dict[str, dict[str, float]]:
    """The fields of ``CLASS=TOTAL`` and ``CLASS:FIELD=VALUE`` arguments."""
    fields_of: dict[str, dict[str, float]] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        name, colon, field = key.partition(":")
        field = field if colon else "total"
        if not equals or "=" in value:
            problems.add(f'Resource argument must have "name=value" format: {text!r}')
        elif not (name and field and value):
            problems.add(f"Name, field and value must be not empty: {text!r}")
        elif field not in FIELDS:
            problems.add(f"Unknown inventory field {field} in {text!r}")
        elif field in fields_of.get(name, {}):
            problems.add(f"{name}:{field} is given twice")
        else:
            fields_of.setdefault(name, {})[field] = _number(field, value, text, problems)
    return fields_of


def _number(field: str, value: str, text: str, problems: errors.InputErrors) -> float:
    try:
        return int(value) if field in inventory.INTEGER_FIELDS else _ratio(value)
    except ValueError:
        problems.add(f"invalid int value: {value!r} in {text!r}")
    except argparse.ArgumentTypeError as error:
        problems.add(f"{error} in {text!r}")
    return 0


def target_of(
    existing: inventory.Inventories, fields_of: Given, *, amend: bool
) -> dict[str, inventory.Inventory]:
    """The new inventories of a provider. Raises InvalidInput for a new class without a total."""
    problems = errors.InputErrors()
    target = dict(existing) if amend else {}
    for name, fields in fields_of.items():
        if name in target:
            target[name] = inventory.Inventory.from_dict({**target[name].as_dict(), **fields})
        elif "total" in fields:
            target[name] = inventory.Inventory.from_dict(fields)
        else:
            problems.add(f"'total' is a required property of the inventory of {name}")
    problems.check()
    return target


def _set(
    client: api.Client, uuid: str, fields_of: Given, parsed_args: argparse.Namespace
) -> list[rows.Row]:
    def attempt() -> responses.ProviderInventories:
        present = client.list_inventories(uuid)
        target = target_of(present.inventories, fields_of, amend=parsed_args.amend)
        errors.InputErrors(_refused(client, uuid, present.inventories, target, parsed_args)).check()
        return client.replace_inventories(uuid, present.generation, target)

    return _rows(retry.on_conflict(attempt).inventories)


def _preview(
    client: api.Client, uuid: str, fields_of: Given, parsed_args: argparse.Namespace
) -> list[rows.Row]:
    """The rows that a run would write; '' is a field that gets the default of the API.

    Raises InvalidInput with everything that the server would refuse.
    """
    present = client.list_inventories(uuid)
    amend = parsed_args.amend
    kept = present.inventories if amend else {}
    complete = {
        name: fields for name, fields in fields_of.items() if name in kept or "total" in fields
    }
    target = target_of(present.inventories, complete, amend=amend)
    refused = [*_refusals(client, uuid, present.inventories, target, fields_of)]
    refused += _refused(client, uuid, present.inventories, target, parsed_args)
    errors.InputErrors(refused).check()
    # As upstream: what is given is shown, also if the total is missing.
    shown = {name: kept[name].as_dict() if name in kept else {} for name in {**kept, **fields_of}}
    return [
        (name, *(fields_of.get(name, {}).get(field, fields.get(field, "")) for field in FIELDS))
        for name, fields in shown.items()
    ]


def _refusals(
    client: api.Client,
    uuid: str,
    existing: inventory.Inventories,
    target: inventory.Inventories,
    fields_of: Given,
) -> Iterator[str]:
    for name, item in target.items():
        yield from _out_of_range(name, item, client.microversion)
    yield from _unknown_classes(client, [name for name in fields_of if name not in existing])
    usages = client.list_usages(uuid)
    for name in existing:
        if name not in {**target, **fields_of} and usages.get(name):
            yield f"Inventory for '{name}' on resource provider '{uuid}' in use."


def _unknown_classes(client: api.Client, names: list[str]) -> Iterator[str]:
    """Before 1.2 the server has no list of resource classes."""
    if names and microversion.supports(client.microversion, "resource classes"):
        existing = set(client.list_resource_classes())
        yield from (f"No such resource class {name}." for name in names if name not in existing)


def _out_of_range(
    name: str, item: inventory.Inventory, version: microversion.Microversion
) -> Iterator[str]:
    for field, value in item.as_dict().items():
        least = 0 if field in {"reserved", "allocation_ratio"} else 1
        if value < least:
            yield f"{name}:{field}: {value} is less than the minimum of {least}"
        if field in inventory.INTEGER_FIELDS and value > inventory.MAX_AMOUNT:
            yield f"{name}:{field}: {value} is greater than the maximum of {inventory.MAX_AMOUNT}"
    # As the service: with a ratio of 0.5, a total of 4 with 5 reserved rounds to a capacity of 0.
    least = 0 if microversion.supports(version, "fully reserved inventory") else 1
    if item.capacity < least:
        yield f"{name}: reserved {item.reserved} of {item.total} leaves less capacity than {least}"
