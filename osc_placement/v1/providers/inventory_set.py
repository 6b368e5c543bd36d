"""``resource provider inventory set``: all inventories of one provider, or of an aggregate's."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from osc_placement import errors, microversion
from osc_placement.client import lookup, retry
from osc_placement.model import inventory
from osc_placement.plan import guards as plan_guards
from osc_placement.v1 import base
from osc_placement.v1.options import arguments
from osc_placement.v1.output import rows
from osc_placement.v1.providers import aggregate_members, inventory as inventory_commands

if TYPE_CHECKING:
    from osc_placement.client import api, responses
    from osc_placement.plan.kinds import inventories

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

    guards = (plan_guards.ONE_TIME_USE,)
    hints = MappingProxyType(
        {
            base.WORD: "openstack resource provider inventory set <provider> --amend"
            f" --resource {base.WORD} [--resource ...], or without --amend to replace all"
            " inventories"
        }
    )
    example = """\
openstack resource provider inventory set rack1-node7 \\
    --resource VCPU=16 --resource MEMORY_MB=2048 \\
    --resource MEMORY_MB:step_size=128
openstack resource provider inventory set <aggregate> --aggregate --amend \\
    --resource VCPU:allocation_ratio=4.0 --dry-run"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser, "; with --aggregate, UUID of an aggregate")
        fields = "; ".join(
            f"{field} - {text}" for field, text in inventory_commands.FIELD_HELP.items()
        )
        parser.add_argument(
            "--resource",
            metavar="<resource_class>:<inventory_field>=<value>",
            action="append",
            default=[],
            help=f"{inventory_commands.RESOURCE_CLASS_HELP}; with a field and its value. May be"
            f" repeated. Fields: {fields}.",
        )
        parser.add_argument(
            "--aggregate",
            action="store_true",
            help="Set the inventories of every member of the aggregate."
            + arguments.since("provider member_of"),
        )
        parser.add_argument("--amend", action="store_true", help="Do not change what is not given")
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="Show the new inventories, or why they would be refused; change nothing",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        required = [("provider member_of", "--aggregate")] if parsed_args.aggregate else []
        client = self.connect(required)
        problems = errors.InputErrors()
        given = parse(parsed_args.resource, problems)
        uuid = parsed_args.uuid
        with problems.collected():
            uuid = uuid if parsed_args.aggregate else lookup.provider_uuid(client, uuid)
        problems.check()
        columns: tuple[str, ...] = ("resource_class", *rows.INVENTORY)
        if parsed_args.aggregate:
            data = self._set_members(client, given, parsed_args)
            return ("resource_provider", *columns), data
        set_one = _preview if parsed_args.dry_run else _set
        return columns, set_one(client, uuid, given, parsed_args)

    def _set_members(
        self, client: api.Client, given: Given, parsed_args: argparse.Namespace
    ) -> list[rows.Row]:
        members = aggregate_members.members(client, parsed_args.uuid)
        if parsed_args.dry_run:
            return aggregate_members.preview_each(
                members, _ACTION, lambda uuid: _preview(client, uuid, given, parsed_args)
            )
        from osc_placement.workflows import batch

        amend = parsed_args.amend
        planned = batch.plan_set_inventories(
            client,
            members,
            lambda found: target_of(found, given, amend=amend),
            exactly=not amend,
            allow=parsed_args.allow,
        )
        return aggregate_members.apply_each(client, members, _ACTION, planned, _rows)


def parse(texts: Iterable[str], problems: errors.InputErrors) -> dict[str, dict[str, float]]:
    """The fields of ``CLASS=TOTAL`` and ``CLASS:FIELD=VALUE`` arguments."""
    given: dict[str, dict[str, float]] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        name, colon, field = key.partition(":")
        field = field if colon else "total"
        if not equals or "=" in value:
            hint = arguments.several_hint(text)
            problems.add(f'Resource argument must have "name=value" format: {text!r}{hint}')
        elif not (name and field and value):
            problems.add(f"Name, field and value must be not empty: {text!r}")
        elif field not in inventory.FIELDS:
            problems.add(f"Unknown inventory field {field} in {text!r}")
        elif field in given.get(name, {}):
            problems.add(f"{name}:{field} is given twice")
        else:
            given.setdefault(name, {})[field] = _number(field, value, text, problems)
    return given


def _number(field: str, value: str, text: str, problems: errors.InputErrors) -> float:
    kind = int if field in inventory.INTEGER_FIELDS else float
    try:
        return kind(value)
    except ValueError:
        problems.add(f"invalid {kind.__name__} value: {value!r} in {text!r}")
        return 0


def target_of(
    existing: inventory.Inventories, given: Given, *, amend: bool
) -> dict[str, inventory.Inventory]:
    """The new inventories of a provider. Raises InvalidInput for a new class without a total."""
    problems = errors.InputErrors()
    target = dict(existing) if amend else {}
    for name, fields in given.items():
        if name in target:
            target[name] = inventory.Inventory.from_dict({**target[name].as_dict(), **fields})
        elif "total" in fields:
            target[name] = inventory.Inventory.from_dict(fields)
        else:
            problems.add(f"'total' is a required property of the inventory of {name}")
    problems.check()
    return target


def _set(
    client: api.Client, uuid: str, given: Given, parsed_args: argparse.Namespace
) -> list[rows.Row]:
    def attempt() -> responses.ProviderInventories:
        found = client.list_inventories(uuid)
        target = target_of(found.inventories, given, amend=parsed_args.amend)
        problems = errors.InputErrors(
            inventory_commands.released(client, uuid, found.inventories, target, parsed_args.allow)
        )
        problems.check()
        return client.replace_inventories(uuid, found.generation, target)

    return rows.inventory_rows(retry.on_conflict(attempt).inventories)


def _rows(state: inventories.InventoryState) -> list[rows.Row]:
    """The rows of one provider, with all of its inventories."""
    return rows.inventory_rows(state.inventories())


def _preview(
    client: api.Client, uuid: str, given: Given, parsed_args: argparse.Namespace
) -> list[rows.Row]:
    """The rows that a run would write; '' is a field that gets the default of the API.

    Raises InvalidInput with everything that the server would refuse.
    """
    found = client.list_inventories(uuid)
    amend = parsed_args.amend
    kept = found.inventories if amend else {}
    complete = {name: fields for name, fields in given.items() if name in kept or "total" in fields}
    target = target_of(found.inventories, complete, amend=amend)
    problems = errors.InputErrors()
    for reason in _refusals(client, uuid, found.inventories, target, given):
        problems.add(reason)
    problems.reasons += inventory_commands.released(
        client, uuid, found.inventories, target, parsed_args.allow
    )
    problems.check()
    # As upstream: what is given is shown, also if the total is missing.
    shown = {name: kept[name].as_dict() if name in kept else {} for name in {**kept, **given}}
    return [
        (name, *({**fields, **given.get(name, {})}.get(field, "") for field in rows.INVENTORY))
        for name, fields in shown.items()
    ]


def _refusals(
    client: api.Client,
    uuid: str,
    existing: inventory.Inventories,
    target: inventory.Inventories,
    given: Given,
) -> Iterator[str]:
    for name, item in target.items():
        yield from _out_of_range(name, item, client.microversion)
    yield from _unknown_classes(client, [name for name in given if name not in existing])
    usages = client.list_usages(uuid)
    for name in existing:
        if name not in {**target, **given} and usages.get(name):
            yield f"Inventory for '{name}' on resource provider '{uuid}' in use."


def _unknown_classes(client: api.Client, names: list[str]) -> Iterator[str]:
    """Before 1.2 the server has no list of resource classes."""
    if names and microversion.supports(client.microversion, "resource classes"):
        known = set(client.list_resource_classes())
        yield from (f"No such resource class {name}." for name in names if name not in known)


def _out_of_range(
    name: str, item: inventory.Inventory, version: microversion.Microversion
) -> Iterator[str]:
    for field, value in item.as_dict().items():
        least = 0 if field in {"reserved", "allocation_ratio"} else 1
        if value < least:
            yield f"{name}:{field}: {value} is less than the minimum of {least}"
        if field in inventory.INTEGER_FIELDS and value > inventory.MAX_AMOUNT:
            yield f"{name}:{field}: {value} is greater than the maximum of {inventory.MAX_AMOUNT}"
    fully = microversion.supports(version, "fully reserved inventory")
    if item.reserved > item.total or (item.reserved == item.total and not fully):
        yield f"{name}: reserved {item.reserved} leaves nothing of the total {item.total}"
