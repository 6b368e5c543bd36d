# SPDX-License-Identifier: Apache-2.0
"""The commands that list, show and change resource providers, and show their trees and usages."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from osc_placement import errors, microversion
from osc_placement.client import api_errors, lookup
from osc_placement.model import command_line
from osc_placement.model.name import counted
from osc_placement.v1.common import arguments, base, services
from osc_placement.v1.output import rows

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.model import provider


class CreateResourceProvider(base.ShowOne):
    """Create a new resource provider"""

    example = """\
openstack resource provider create rack1-node7
openstack resource provider create \\
    --parent-provider rack1-node7 rack1-node7_numa0"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--parent-provider",
            metavar="<parent_provider>",
            help="Name or UUID of the parent provider. Omit for no parent."
            + arguments.since("nested providers"),
        )
        parser.add_argument("--uuid", metavar="<uuid>", help="UUID of the resource provider")
        parser.add_argument("name", metavar="<name>", help="Name of the resource provider")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Fields:
        client = self.connect(_parent_feature(parsed_args))
        parent = parsed_args.parent_provider
        created = client.create_provider(
            parsed_args.name,
            parsed_args.uuid,
            None if parent is None else lookup.provider_uuid(client, parent),
        )
        return _provider_fields(created, client)


class ListResourceProvider(base.Lister):
    """List resource providers

    --long adds traits, aggregates, inventories and the time of the last change, if the
    microversion supports them, with up to four requests per provider.
    """

    writes = False
    example = """\
openstack resource provider list --member-of <aggregate> \\
    --required HW_CPU_X86_AVX2
openstack resource provider list --resource VCPU=8 \\
    --not-member-of <aggregate> --long
openstack resource provider list --name-glob 'rack1-*' --member-of az1"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--uuid", metavar="<uuid>", help="UUID of the resource provider")
        parser.add_argument("--name", metavar="<name>", help="Name of the resource provider")
        arguments.add_repeated(
            parser,
            "--resource",
            "<resource_class>=<value>",
            "An amount that a provider must have free. May be repeated."
            + arguments.since("provider resources"),
        )
        arguments.add_flag(parser, "--long", "Also show traits, aggregates, inventories, updated")
        arguments.add_selector(parser, arguments.OPTIONAL)
        parser.add_argument("--aggregate-uuid", action="append", default=[], help=argparse.SUPPRESS)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        from osc_placement.workflows.cloud import selector

        if parsed_args.aggregate_uuid and parsed_args.member_of:
            self.usage_error("argument --member-of: not allowed with argument --aggregate-uuid")
        parsed_args.member_of += arguments.old_aggregates(parsed_args.aggregate_uuid)
        feature = [("provider resources", "--resource")] if parsed_args.resource else []
        client = self.connect([*feature, *arguments.selector_features(parsed_args)])
        if parsed_args.aggregate_uuid:
            self.deprecated_option_warning("--aggregate-uuid", "--member-of")
        problems = errors.InputErrors()
        resources = arguments.resources(parsed_args.resource, problems)
        in_tree = parsed_args.in_tree
        with problems.collected():
            in_tree = in_tree and lookup.provider_uuid(client, in_tree)
        # --in-tree with a UUID that no provider has: this command shows no rows, as the API. A
        # selector would refuse it, so it gets the other options only.
        selected = dataclasses.replace(arguments.read_selector(parsed_args), in_tree=None)
        list_providers = functools.partial(
            selector.listed,
            client,
            selected,
            services.named_aggregates(self),
            problems,
            name=parsed_args.name,
            uuid=parsed_args.uuid,
            resources=resources,
        )
        providers = list_providers(in_tree=in_tree)
        if parsed_args.long:
            return self._long_rows(client, providers)
        return rows.listing(_columns(client), providers)

    def _long_rows(self, client: api.Client, providers: Sequence[provider.Provider]) -> base.Rows:
        columns = dict(_columns(client))
        for column, (feature, read) in _LONG.items():
            if feature is None or microversion.supports(client.microversion, feature):
                columns[column] = functools.partial(read, client)

        def row(item: provider.Provider) -> rows.Row | None:
            # A provider that was deleted after it was listed has no row.
            with contextlib.suppress(api_errors.NotFound):
                return rows.row(columns, item)
            return None

        data = self.read_each("reading providers", row, providers)
        return tuple(columns), [cells for cells in data if cells]


class ShowResourceProvider(base.ShowOne):
    """Show resource provider details"""

    writes = False
    example = "openstack resource provider show --allocations rack1-node7"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_flag(parser, "--allocations", "Also show the allocations of each consumer")
        arguments.add_provider(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Fields:
        client = self.connect()
        uuid = lookup.provider_uuid(client, parsed_args.uuid)
        columns, values = _provider_fields(client.show_provider(uuid), client)
        if parsed_args.allocations:
            return (*columns, "allocations"), (*values, _allocations(client, uuid))
        return columns, values


class SetResourceProvider(base.ShowOne):
    """Update an existing resource provider

    A name or parent that is not given does not change. Before Placement API 1.37 a parent
    can be set but not changed. "resource provider unset" removes it.

    nova-compute looks for the provider of a compute node under its hypervisor hostname: another
    name is the finding other-name of "placement provider audit". "placement recipe
    replace-host" is for a host that has another name now.
    """

    example = """\
openstack resource provider set --name rack2-node7 rack1-node7
openstack --os-placement-api-version 1.37 resource provider set \\
    --parent-provider rack1-node7 rack1-node7_pci0"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)
        parser.add_argument("--name", metavar="<name>", help="A new name")
        parser.add_argument(
            "--parent-provider",
            metavar="<parent_provider>",
            help="Name or UUID of the parent. Before Placement API 1.37 only for a provider"
            " without a parent." + arguments.since("nested providers"),
        )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Fields:
        if parsed_args.name is None and parsed_args.parent_provider is None:
            self.usage_error("at least one of --name, --parent-provider is required")
        client = self.connect(_parent_feature(parsed_args))
        texts = [parsed_args.uuid, parsed_args.parent_provider]
        uuids = lookup.provider_uuids(client, [text for text in texts if text is not None])
        uuid = uuids[parsed_args.uuid]
        new_name = parsed_args.name
        if new_name is None:
            new_name = client.show_provider(uuid).name
        if parsed_args.parent_provider is None:
            return _provider_fields(client.update_provider(uuid, new_name), client)
        parent = uuids[parsed_args.parent_provider]
        return _provider_fields(client.update_provider(uuid, new_name, parent), client)


class UnsetResourceProvider(base.ShowOne):
    """Remove the parent of a resource provider

    The provider and its descendants become a separate tree.
    """

    required_feature = "re-parenting"
    example = "openstack resource provider unset --parent-provider rack1-node7_pci0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--parent-provider", action="store_true", required=True, help="Remove the parent"
        )
        arguments.add_provider(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Fields:
        client = self.connect()
        uuid = lookup.provider_uuid(client, parsed_args.uuid)
        shown = client.show_provider(uuid)
        if shown.parent_uuid is None:
            return _provider_fields(shown, client)
        return _provider_fields(client.update_provider(uuid, shown.name, None), client)


class DeleteResourceProvider(base.Command):
    """Delete one or more resource providers

    A provider with allocations or children cannot be deleted. --tree deletes all
    descendants first, from the bottom up.
    """

    example = """\
openstack resource provider delete rack1-node7 rack1-node8
openstack resource provider delete --tree rack1-node7"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_flag(
            parser,
            "--tree",
            "Delete the descendants of the provider too, from the bottom up."
            + arguments.since("nested providers"),
        )
        parser.add_argument(
            "uuid",
            metavar="<provider>",
            nargs="+",
            help="Name or UUID of the resource provider. May be repeated.",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        client = self.connect([("nested providers", "--tree")] if parsed_args.tree else [])
        # One provider may be given twice, by name and by UUID.
        uuids = list(dict.fromkeys(lookup.provider_uuids(client, parsed_args.uuid).values()))
        if parsed_args.tree:
            uuids = _with_descendants(client, uuids)
        _delete_each(client, uuids, with_tree=parsed_args.tree)


def _delete_each(client: api.Client, uuids: Sequence[str], *, with_tree: bool) -> None:
    """Delete every provider that can be deleted. Raises one error for all others.

    Those after a failed connection are not tried.
    """
    refused: list[errors.PlacementError] = []
    deleted = 0
    for uuid in uuids:
        try:
            client.delete_provider(uuid)
            deleted += 1
        except api_errors.Conflict as error:
            error.next_step = _next_step(client, uuid, error, with_tree=with_tree)
            refused.append(error)
        except api_errors.ApiError as error:
            refused.append(error)
        except api_errors.ConnectionFailed as error:
            refused.append(error)
            break
    if refused and len(uuids) == 1:
        raise refused[0]
    if refused:
        left, providers = len(uuids) - deleted, counted(len(uuids), "resource provider")
        summary = f"Failed to delete {left} of {providers}."
        raise errors.InvalidInput([*(str(error) for error in refused), summary])


def _next_step(
    client: api.Client, uuid: str, error: api_errors.Conflict, *, with_tree: bool
) -> str:
    """Names a provider that cannot be deleted, and the command that helps. Requests: one GET."""
    name = lookup.provider_names(client, [uuid]).get(uuid, uuid)
    if "has allocations" in error.detail:
        subject = command_line.subject(name, uuid)
        command = command_line.line("resource provider consumer list", subject)
        return f". {name} is in use: '{command}' shows its consumers"
    if "parent" not in error.detail:
        return ""
    return f". {name} has children{'' if with_tree else ': --tree deletes them too'}"


def _with_descendants(client: api.Client, uuids: Sequence[str]) -> list[str]:
    """The providers and their descendants, children first. Requests: one GET per provider."""
    from osc_placement.model import provider

    ordered: dict[str, None] = {}
    for uuid in uuids:
        tree = provider.ProviderTree(client.list_providers(in_tree=uuid))
        ordered.update(dict.fromkeys(_bottom_up(tree, uuid)))
    return list(ordered)


def _bottom_up(tree: provider.ProviderTree, uuid: str) -> Iterator[str]:
    """All descendants of a provider, and the provider last; only it if it is not in the tree."""
    for child in tree.children(uuid):
        yield from _bottom_up(tree, child.uuid)
    yield uuid


def _parent_feature(parsed_args: argparse.Namespace) -> list[tuple[str, str]]:
    if parsed_args.parent_provider is None:
        return []
    return [("nested providers", "--parent-provider")]


_COLUMNS: rows.Columns[provider.Provider] = {
    "uuid": lambda item: item.uuid,
    "name": lambda item: item.name,
    "generation": lambda item: item.generation,
}
_NESTED_COLUMNS: rows.Columns[provider.Provider] = {
    **_COLUMNS,
    "root_provider_uuid": lambda item: item.root_uuid,
    "parent_provider_uuid": lambda item: item.parent_uuid,
}


def _columns(client: api.Client) -> rows.Columns[provider.Provider]:
    """The columns of a provider: from 1.14 with its root and parent."""
    nested = microversion.supports(client.microversion, "nested providers")
    return _NESTED_COLUMNS if nested else _COLUMNS


def _provider_fields(item: provider.Provider, client: api.Client) -> base.Fields:
    columns = _columns(client)
    return tuple(columns), rows.row(columns, item)


def _allocations(client: api.Client, uuid: str) -> rows.PythonText:
    """A provider's allocations, in the form of the API."""
    consumers: dict[str, dict[str, Any]] = {}
    for consumer, allocation in client.list_provider_allocations(uuid).allocations.items():
        consumers[consumer] = {"resources": dict(allocation.resources)}
        if allocation.consumer_generation is not None:
            consumers[consumer]["consumer_generation"] = allocation.consumer_generation
    return rows.PythonText(consumers)


def _traits(client: api.Client, item: provider.Provider) -> rows.Cell:
    return rows.lines(client.list_provider_traits(item.uuid).traits)


def _aggregates(client: api.Client, item: provider.Provider) -> rows.Cell:
    return rows.lines(client.list_aggregates(item.uuid).aggregates)


#: ``{column of --long: (feature, how to read it)}``
_LONG: Mapping[str, tuple[str | None, Callable[[api.Client, provider.Provider], Any]]] = {
    "traits": ("traits", _traits),
    "aggregates": ("provider aggregates", _aggregates),
    "inventories": (
        None,
        lambda client, item: rows.totals(client.list_inventories(item.uuid).inventories),
    ),
    "updated": ("last-modified", lambda client, item: client.show_provider(item.uuid).updated),
}


#: The first columns of a row of a tree: a table draws the tree.
TABLE_COLUMNS = ("tree",)
DATA_COLUMNS = ("name", "parent", "depth", "kind")

TREE_COLUMNS = ("uuid", "generation", "used/capacity", "traits")
LONG_COLUMNS = ("parent_provider_uuid", "aggregates", "inventories")


class ShowResourceProviderTree(base.ReportLister):
    """Show the provider tree of a resource provider

    One row per provider, root first, with used amounts, capacities and traits. A table draws
    the tree; other formats have the columns name, parent, depth and kind instead. Sends three
    requests per provider.
    """

    required_feature = "nested providers"
    example = "openstack resource provider tree show rack1-node7"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)
        arguments.add_flag(parser, "--long", "Also show parent, aggregates and inventories")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        from osc_placement.model import provider

        client = self.connect()
        uuid = lookup.provider_uuid(client, parsed_args.uuid)
        providers = client.list_providers(in_tree=uuid)
        if not providers:
            raise errors.PlacementError(f"No resource provider with uuid {uuid} found")
        tree = provider.ProviderTree(providers)
        is_table = parsed_args.formatter == "table"
        lines, long = draw(tree), parsed_args.long
        values = self.read_each(
            "reading providers", lambda line: _row(client, line[1], long=long), lines
        )
        data = [
            tree_cells(branches, item.name, item.parent_uuid, is_table=is_table) + row
            for (branches, item), row in zip(lines, values, strict=True)
        ]
        columns = (TABLE_COLUMNS if is_table else DATA_COLUMNS) + TREE_COLUMNS
        return columns + (LONG_COLUMNS if parsed_args.long else ()), data


def tree_cells(
    branches: str, name: str, parent: str | None, *, is_table: bool, kind: str = "provider"
) -> rows.Row:
    """The values of TABLE_COLUMNS or DATA_COLUMNS.

    ``branches`` is what is drawn before the name, three characters per level.
    """
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
    """The values of TREE_COLUMNS, with ``long`` also of LONG_COLUMNS. Requests: three or four."""
    inventories = client.list_inventories(item.uuid).inventories
    usages = client.list_usages(item.uuid)
    used = {
        resource_class: {"used": usages.get(resource_class, 0), "capacity": inventory.capacity}
        for resource_class, inventory in inventories.items()
    }
    row = (item.uuid, item.generation, rows.usages(used), _traits(client, item))
    if not long:
        return row
    return (*row, item.parent_uuid, _aggregates(client, item), rows.totals(inventories))


USAGE_COLUMNS = ("resource_class", "usage")


class ShowProviderUsage(base.Lister):
    """Show the used amount of each resource class of a resource provider"""

    writes = False
    example = "openstack resource provider usage show rack1-node7"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        client = self.connect()
        usages = client.list_usages(lookup.provider_uuid(client, parsed_args.uuid))
        return USAGE_COLUMNS, list(usages.items())


class ShowUsage(base.Lister):
    """Show the used amount of each resource class of a project or user

    With --long or --consumer-type the output has one row per consumer type and resource class,
    with the type and the number of its consumers. From Placement API 1.38 it has one row per
    consumer type without these options.
    """

    writes = False
    required_feature = "usages by project"
    example = """\
openstack resource usage show <project-uuid> --user-id <user-uuid>
openstack resource usage show <project-uuid> --consumer-type INSTANCE"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("project_id", metavar="<project-uuid>", help="ID of the project")
        parser.add_argument("--user-id", metavar="<user-uuid>", help="ID of the user")
        parser.add_argument(
            "--consumer-type",
            metavar="<consumer_type>",
            help="Only consumers of this type; 'unknown' selects consumers without a type, 'all'"
            " adds all types up." + arguments.since("consumer types"),
        )
        arguments.add_flag(
            parser,
            "--long",
            "Show consumer types and counts also if no version is pinned."
            + arguments.since("consumer types"),
        )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        shows_types = self.shows(parsed_args, "consumer_type", "consumer_count")
        options = {"--consumer-type": parsed_args.consumer_type, "--long": shows_types}
        client = self.connect(
            [("consumer types", option) for option, value in options.items() if value]
        )
        usages = client.show_usages(
            parsed_args.project_id, parsed_args.user_id, parsed_args.consumer_type
        )
        if any(options.values()):
            return (*USAGE_COLUMNS, "consumer_type", "consumer_count"), [
                (name, amount, usage.consumer_type, usage.consumer_count)
                for usage in usages
                for name, amount in usage.resources.items()
            ]
        if microversion.supports(client.microversion, "consumer types"):
            return USAGE_COLUMNS, [
                (item.consumer_type, rows.PythonText(item.sent)) for item in usages
            ]
        return USAGE_COLUMNS, [row for usage in usages for row in usage.resources.items()]
