"""``resource provider create | delete | list | set | show | unset``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from osc_placement import errors, microversion
from osc_placement.client import api_errors, lookup
from osc_placement.v1 import arguments, base, rows

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

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        client = self.connect(_parent_feature(parsed_args))
        parent = parsed_args.parent_provider
        created = client.create_provider(
            parsed_args.name,
            parsed_args.uuid,
            None if parent is None else lookup.provider_uuid(client, parent),
        )
        return _shown(created, client)


class ListResourceProvider(base.Lister):
    """List resource providers

    --long adds each provider's traits, aggregates and inventories and when it was last
    changed, as far as the microversion knows them, with up to four requests per provider.
    """

    example = """\
openstack resource provider list --member-of <aggregate> \\
    --required HW_CPU_X86_AVX2
openstack resource provider list --resource VCPU=8 \\
    --not-member-of <aggregate> --long"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--uuid", metavar="<uuid>", help="UUID of the resource provider")
        parser.add_argument("--name", metavar="<name>", help="Name of the resource provider")
        parser.add_argument(
            "--resource",
            metavar="<resource_class>=<value>",
            action="append",
            default=[],
            help="An amount that a provider must have room for. May be repeated."
            + arguments.since("provider resources"),
        )
        parser.add_argument(
            "--in-tree",
            metavar="<in_tree>",
            help="Only the provider tree that this provider (name or UUID) stands in."
            + arguments.since("nested providers"),
        )
        arguments.add_traits(parser, "a provider", "provider required traits")
        arguments.add_aggregates(parser, "a provider", "provider member_of")
        parser.add_argument(
            "--long", action="store_true", help="Show traits, aggregates, inventories, updated"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        aggregates = parsed_args.member_of + arguments.old_aggregates(parsed_args.aggregate_uuid)
        client = self.connect(_list_features(parsed_args, aggregates))
        if parsed_args.aggregate_uuid:
            self.deprecated_option_warning("--aggregate-uuid", "--member-of")
        faults = errors.InputErrors()
        resources = arguments.resources(parsed_args.resource, faults)
        in_tree = parsed_args.in_tree
        with faults.collected():
            in_tree = in_tree and lookup.provider_uuid(client, in_tree)
        faults.check()
        found = client.list_providers(
            name=parsed_args.name,
            uuid=parsed_args.uuid,
            in_tree=in_tree,
            resources=resources,
            required=arguments.required(parsed_args.required, parsed_args.forbidden),
            member_of=arguments.member_of(aggregates, parsed_args.not_member_of),
        )
        version = client.microversion
        if parsed_args.long:
            return _long(client, found)
        return rows.provider_columns(version), [rows.provider_row(item, version) for item in found]


class ShowResourceProvider(base.ShowOne):
    """Show resource provider details"""

    example = "openstack resource provider show --allocations rack1-node7"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--allocations",
            action="store_true",
            help="Include what is allocated on the provider, by consumer",
        )
        arguments.add_provider(parser)

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        client = self.connect()
        uuid = lookup.provider_uuid(client, parsed_args.uuid)
        columns, values = _shown(client.show_provider(uuid), client)
        if parsed_args.allocations:
            return (*columns, "allocations"), (*values, _allocations(client, uuid))
        return columns, values


class SetResourceProvider(base.ShowOne):
    """Update an existing resource provider

    What is not given stays. A parent is set where there was none; from microversion 1.37
    it may also be changed. "resource provider unset" takes it away.
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
            help="Name or UUID of the parent. Before Placement API 1.37 only a provider without"
            " a parent may get one." + arguments.since("nested providers"),
        )

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
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
            return _shown(client.update_provider(uuid, new_name), client)
        parent = uuids[parsed_args.parent_provider]
        return _shown(client.update_provider(uuid, new_name, parent), client)


class UnsetResourceProvider(base.ShowOne):
    """Take the parent of a resource provider away

    The provider, with everything below it, becomes a tree of its own.
    """

    required_feature = "re-parenting"
    example = "openstack resource provider unset --parent-provider rack1-node7_pci0"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--parent-provider", action="store_true", required=True, help="Take the parent away"
        )
        arguments.add_provider(parser)

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        client = self.connect()
        uuid = lookup.provider_uuid(client, parsed_args.uuid)
        found = client.show_provider(uuid)
        if found.parent_uuid is None:
            return _shown(found, client)
        return _shown(client.update_provider(uuid, found.name, None), client)


class DeleteResourceProvider(base.Command):
    """Delete one or more resource providers

    A provider goes only when nothing is allocated on it and no other provider stands
    below it. With --tree everything below it goes first, from the bottom up.
    """

    example = """\
openstack resource provider delete rack1-node7 rack1-node8
openstack resource provider delete --tree rack1-node7"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--tree",
            action="store_true",
            help="Delete everything below the provider too, from the bottom up."
            + arguments.since("nested providers"),
        )
        parser.add_argument(
            "uuid",
            metavar="<provider>",
            nargs="+",
            help="Name or UUID of the resource provider; many may be given",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        client = self.connect([("nested providers", "--tree")] if parsed_args.tree else [])
        uuids = list(lookup.provider_uuids(client, parsed_args.uuid).values())
        if parsed_args.tree:
            uuids = _with_descendants(client, uuids)
        _delete_each(client, uuids)


def _delete_each(client: api.Client, uuids: Sequence[str]) -> None:
    """Delete what can be deleted; the refusals of all others are raised together."""
    refused: list[api_errors.ApiError] = []
    for uuid in uuids:
        try:
            client.delete_provider(uuid)
        except api_errors.ApiError as error:
            refused.append(error)
    if refused and len(uuids) == 1:
        raise refused[0]
    if refused:
        summary = f"Failed to delete {len(refused)} of {len(uuids)} resource providers."
        raise errors.InvalidInput([*(str(error) for error in refused), summary])


def _with_descendants(client: api.Client, uuids: Sequence[str]) -> list[str]:
    """Each provider after everything below it. Cost: one request per provider given."""
    from osc_placement.model import provider

    ordered: dict[str, None] = {}
    for uuid in uuids:
        tree = provider.ProviderTree(client.list_providers(in_tree=uuid))
        below = _below(tree, uuid)
        # A provider that is not there any more shall say so itself.
        found = [item.uuid for item in tree.bottom_up() if item.uuid in below] or [uuid]
        ordered.update(dict.fromkeys(found))
    return list(ordered)


def _below(tree: provider.ProviderTree, uuid: str) -> set[str]:
    """The provider itself and all its descendants."""
    return {uuid}.union(*(_below(tree, child.uuid) for child in tree.children(uuid)))


def _parent_feature(parsed_args: argparse.Namespace) -> list[tuple[str, str]]:
    if parsed_args.parent_provider is None:
        return []
    return [("nested providers", "--parent-provider")]


def _list_features(
    parsed_args: argparse.Namespace, aggregates: Sequence[str]
) -> Iterator[tuple[str, str]]:
    if parsed_args.resource:
        yield "provider resources", "--resource"
    if parsed_args.in_tree:
        yield "nested providers", "--in-tree"
    yield from arguments.trait_features(
        parsed_args.required, parsed_args.forbidden, "provider required traits"
    )
    yield from arguments.aggregate_features(
        aggregates, parsed_args.not_member_of, "provider member_of"
    )


def _shown(item: provider.Provider, client: api.Client) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    version = client.microversion
    return rows.provider_columns(version), rows.provider_row(item, version)


def _allocations(client: api.Client, uuid: str) -> dict[str, Any]:
    """The API's own form of a provider's allocations."""
    found: dict[str, dict[str, Any]] = {}
    for consumer, share in client.list_provider_allocations(uuid).allocations.items():
        found[consumer] = {"resources": dict(share.resources)}
        if share.consumer_generation is not None:
            found[consumer]["consumer_generation"] = share.consumer_generation
    return found


def _long(
    client: api.Client, found: Sequence[provider.Provider]
) -> tuple[tuple[str, ...], list[Any]]:
    version = client.microversion
    columns = rows.provider_columns(version)
    for feature, column in _LONG:
        if feature is None or microversion.supports(version, feature):
            columns += (column,)
    data = [_long_row(client, item, columns) for item in found]
    return columns, [row for row in data if row is not None]


_LONG = (
    ("traits", "traits"),
    ("provider aggregates", "aggregates"),
    (None, "inventories"),
    ("last-modified", "updated"),
)


def _long_row(
    client: api.Client, item: provider.Provider, columns: Sequence[str]
) -> rows.Row | None:
    """None for a provider that has vanished since it was listed."""
    try:
        row = rows.provider_row(item, client.microversion)
        if "traits" in columns:
            row += (rows.Lines(list(client.list_provider_traits(item.uuid).traits)),)
        if "aggregates" in columns:
            row += (rows.Lines(list(client.list_aggregates(item.uuid).aggregates)),)
        inventories = client.list_inventories(item.uuid).inventories
        row += (rows.InventoryTotals({k: v.as_dict() for k, v in inventories.items()}),)
        if "updated" in columns:
            row += (client.show_provider(item.uuid).updated,)
    except api_errors.NotFound:
        return None
    return row
