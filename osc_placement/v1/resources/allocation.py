# SPDX-License-Identifier: Apache-2.0
"""``resource provider allocation show | set | unset | amend | delete`` and ``… consumer list``."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from osc_placement import errors, microversion
from osc_placement.client import api_errors, lookup, retry
from osc_placement.model import command_line, name
from osc_placement.v1.common import arguments, base, services
from osc_placement.v1.output import rows

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.model import allocation, provider


_OWNER_IGNORED = (
    "--project-id and --user-id options do not affect allocation for"
    " --os-placement-api-version less than 1.8"
)
_TYPE_IGNORED = (
    "--consumer-type option does not affect allocation for"
    " --os-placement-api-version less than 1.38"
)


class ShowAllocation(base.Lister):
    """Show the allocations of a consumer, one row per resource provider

    --long adds the type (1.38) and the generation (1.28) of the consumer, and the names of the
    providers: one request each, or one listing for more than five.
    """

    writes = False
    example = "openstack resource provider allocation show <consumer_uuid>"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_consumer(parser)
        arguments.add_flag(parser, "--long", "Show type and generation")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        optional = ["consumer generation", "consumer types"] if parsed_args.long else []
        client = self.connect(optional=optional)
        columns, data = _shown(client, [parsed_args.uuid])
        if not data and (problem := _not_a_uuid(parsed_args.uuid)):
            raise errors.InvalidInput([problem])
        if self.shows(parsed_args, "provider_name"):
            names = lookup.provider_names(client, [row[0] for row in data])
            columns, data = (*columns, "provider_name"), [(*row, names[row[0]]) for row in data]
        if not parsed_args.long:
            return columns, data
        if not microversion.supports(client.microversion, "consumer generation"):
            return columns, data
        generation = client.show_allocations(parsed_args.uuid).generation
        return (*columns, "consumer_generation"), [(*row, generation) for row in data]


class SetAllocation(base.Lister):
    """Replace all allocations of one or more consumers

    Allocations that are not given are removed. To change single allocations use "resource
    provider allocation amend". Project and user are required from Placement API 1.8, the
    consumer type from 1.38. From 1.28 the consumer generation protects concurrent changes.
    Several consumers are written in one atomic request (1.13).
    """

    example = """\
openstack resource provider allocation set <consumer_uuid> \\
    --allocation rp=rack1-node7,VCPU=2,MEMORY_MB=2048 \\
    --project-id <project> --user-id <user>"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "uuid",
            metavar="<uuid>",
            nargs="+",
            type=arguments.consumer_uuid,
            help="UUID of the consumer. May be repeated.",
        )
        arguments.add_allocation(
            parser,
            "Provider (name or UUID) and amounts to allocate from it. May be repeated. With"
            " several consumers, an argument with consumer=<uuid> applies to this one only.",
        )
        parser.add_argument(
            "--project-id",
            metavar="project_id",
            help="ID of the consuming project. Required from Placement API 1.8.",
        )
        parser.add_argument(
            "--user-id",
            metavar="user_id",
            help="ID of the consuming user. Required from Placement API 1.8.",
        )
        parser.add_argument(
            "--consumer-type",
            metavar="consumer_type",
            help="Type of the consumer, for example INSTANCE or MIGRATION. Required from"
            " Placement API 1.38, ignored before it.",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        client = self.connect(_many(parsed_args))
        self._require_owner(parsed_args, client.microversion)
        problems = errors.InputErrors()
        parts = arguments.parse_allocations(parsed_args.allocation, parsed_args.uuid, problems)
        target = arguments.resolve_allocations(client, parts, problems)
        self._warn(parsed_args, client.microversion)
        retry.on_conflict(lambda: _replace(client, parsed_args, target))
        return _shown(client, parsed_args.uuid)

    def _require_owner(
        self, parsed_args: argparse.Namespace, version: microversion.Microversion
    ) -> None:
        owner = ["--project-id", "--user-id"]
        if microversion.supports(version, "consumer types"):
            self.require_options(parsed_args, [*owner, "--consumer-type"])
        elif microversion.supports(version, "allocation project and user"):
            self.require_options(parsed_args, owner)

    def _warn(self, parsed_args: argparse.Namespace, version: microversion.Microversion) -> None:
        """Warn about options that this microversion ignores."""
        owned = microversion.supports(version, "allocation project and user")
        if not owned and (parsed_args.project_id or parsed_args.user_id):
            self.log.warning(_OWNER_IGNORED)
        if parsed_args.consumer_type and not microversion.supports(version, "consumer types"):
            self.log.warning(_TYPE_IGNORED)


class UnsetAllocation(base.Lister):
    """Remove some allocations of one or more consumers

    Without --provider and --resource-class all allocations are removed. Several consumers
    are written in one atomic request.
    """

    required_feature = "allocation dict form"
    example = """\
openstack resource provider allocation unset <consumer_uuid> \\
    --provider rack1-node7
openstack resource provider allocation unset <consumer_uuid> \\
    --resource-class VGPU"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "uuid",
            metavar="<consumer_uuid>",
            nargs="+",
            type=arguments.consumer_uuid,
            help="UUID of the consumer. May be repeated. From Placement API 1.28 its generation"
            " protects concurrent changes.",
        )
        arguments.add_repeated(
            parser,
            "--provider",
            "provider_uuid",
            "Remove allocations from this provider (name or UUID), for example the host"
            " that a server was evacuated from.",
        )
        arguments.add_repeated(
            parser,
            "--resource-class",
            "resource_class",
            "Remove only allocations of this resource class, from all providers or from"
            " those of --provider.",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        client = self.connect(_many(parsed_args))
        uuids = set(lookup.provider_uuids(client, parsed_args.provider).values())
        classes = set(parsed_args.resource_class)
        return _change(client, parsed_args.uuid, lambda item: _without(item, uuids, classes))


class AmendAllocation(base.Lister):
    """Change some allocations of a consumer

    Other allocations do not change. An amount of 0 removes the allocation. The consumer must
    have allocations; its generation protects concurrent changes.
    """

    required_feature = "consumer generation"
    example = """\
openstack resource provider allocation amend <consumer_uuid> \\
    --allocation rp=rack1-node7,VCPU=4 --allocation rp=rack1-node7,VGPU=0"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_consumer(parser)
        arguments.add_allocation(
            parser,
            "Provider (name or UUID) and the new amounts to allocate from it. May be repeated.",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        client = self.connect()
        problems = errors.InputErrors()
        parts = arguments.parse_allocations(
            parsed_args.allocation, [parsed_args.uuid], problems, minimum=0
        )
        changes = arguments.resolve_allocations(client, parts, problems)[parsed_args.uuid]
        return _change(client, [parsed_args.uuid], lambda item: _amended(item, changes))


class DeleteAllocation(base.Command):
    """Delete all allocations of a consumer"""

    example = "openstack resource provider allocation delete <consumer_uuid>"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_consumer(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.connect().delete_allocations(parsed_args.uuid)


def _many(parsed_args: argparse.Namespace) -> list[tuple[str, str]]:
    """The feature that several consumers require; nothing for one consumer."""
    if len(parsed_args.uuid) == 1:
        return []
    return [("allocations of many consumers", "many consumers")]


def _replace(
    client: api.Client,
    parsed_args: argparse.Namespace,
    parts: Mapping[str, allocation.Allocations],
) -> None:
    """Replace the allocations of the consumers, under their present generations."""
    from osc_placement.model import allocation

    has_generations = microversion.supports(client.microversion, "consumer generation")
    consumers = [
        allocation.Consumer(
            uuid=uuid,
            allocations=allocations,
            project_id=parsed_args.project_id,
            user_id=parsed_args.user_id,
            generation=client.show_allocations(uuid).generation if has_generations else None,
            consumer_type=parsed_args.consumer_type,
        )
        for uuid, allocations in parts.items()
    ]
    if len(consumers) == 1:
        client.replace_allocations(consumers[0])
    else:
        client.write_allocations(consumers)


def _change(
    client: api.Client,
    uuids: Sequence[str],
    changed: Callable[[allocation.Consumer], allocation.Consumer],
) -> base.Rows:
    """Write what ``changed`` makes of the consumers, under their generations; show them."""

    def attempt() -> None:
        consumers = [_existing(client, uuid) for uuid in uuids]
        pairs = [(old, new) for old in consumers if (new := changed(old)) != old]
        try:
            _write(client, [new for _, new in pairs])
        except api_errors.Conflict as error:
            has_more = any(_has_more(old, new) for old, new in pairs)
            if "would exceed the capacity" in error.detail and not has_more:
                error.next_step = _OLDER
            raise

    retry.on_conflict(attempt)
    return _shown(client, uuids)


def _has_more(old: allocation.Consumer, new: allocation.Consumer) -> bool:
    return any(
        amount > old.allocations.get(uuid, {}).get(name, 0)
        for uuid, resources in new.allocations.items()
        for name, amount in resources.items()
    )


#: Only an older Placement refuses a consumer that gives something back.
_OLDER = (
    ": a Placement older than 2025.2 refuses to write allocations on a provider over its capacity,"
    " also fewer: offer more first (openstack resource provider inventory amend)"
)


def _existing(client: api.Client, uuid: str) -> allocation.Consumer:
    consumer = client.show_allocations(uuid)
    if not consumer.allocations:
        raise errors.PlacementError(_not_a_uuid(uuid) or f"No allocations for consumer '{uuid}'")
    return consumer


def _not_a_uuid(text: str) -> str:
    """The error for a consumer that is not a UUID, such as the name of a server; empty for one."""
    show = command_line.line("server show", text, options=[("-c", None), ("id", None)])
    return "" if name.is_uuid(text) else f"consumer {text!r} is not a UUID; of a server: {show}"


def _write(client: api.Client, consumers: Sequence[allocation.Consumer]) -> None:
    """Write existing consumers, without a change of their types, which nova's may not have.

    Before 1.28 the API accepts no empty allocations: a consumer without allocations is
    deleted.
    """
    version = min(client.microversion, microversion.TYPE_STAYS)
    writer = client.at(version)
    if len(consumers) > 1:
        writer.write_allocations(consumers)
        return
    for consumer in consumers:
        if consumer.allocations or microversion.supports(version, "consumer generation"):
            writer.replace_allocations(consumer)
        else:
            writer.delete_allocations(consumer.uuid)


def _without(
    consumer: allocation.Consumer, providers: set[str], classes: set[str]
) -> allocation.Consumer:
    left = {}
    for uuid, resources in consumer.allocations.items():
        kept = dict(resources)
        if not providers or uuid in providers:
            kept = {rc: amount for rc, amount in kept.items() if classes and rc not in classes}
        if kept:
            left[uuid] = kept
    return dataclasses.replace(consumer, allocations=left)


def _amended(consumer: allocation.Consumer, changes: allocation.Allocations) -> allocation.Consumer:
    amended = {uuid: dict(resources) for uuid, resources in consumer.allocations.items()}
    for uuid, resources in changes.items():
        amended[uuid] = {**amended.get(uuid, {}), **resources}
    kept = {
        uuid: {resource_class: amount for resource_class, amount in resources.items() if amount}
        for uuid, resources in amended.items()
    }
    return dataclasses.replace(
        consumer, allocations={uuid: resources for uuid, resources in kept.items() if resources}
    )


def _shown(client: api.Client, uuids: Iterable[str]) -> base.Rows:
    """Columns and rows of the consumers; with several, the last column is the consumer."""
    version = client.microversion
    consumers = list(dict.fromkeys(uuids))
    of_consumer = {
        column: read
        for column, (feature, read) in _OF_CONSUMER.items()
        if microversion.supports(version, feature)
    }
    if len(consumers) > 1:
        of_consumer["consumer"] = lambda consumer: consumer.uuid
    data: list[rows.Row] = []
    for uuid in consumers:
        shown = client.show_consumer_allocations(uuid)
        generations, cells = shown.provider_generations, rows.row(of_consumer, shown.consumer)
        data += [
            (provider, generations.get(provider), rows.PythonText(dict(resources)), *cells)
            for provider, resources in shown.consumer.allocations.items()
        ]
    return ("resource_provider", "generation", "resources", *of_consumer), data


#: ``{column of the consumer: (the feature that it needs, how to read it)}``
_OF_CONSUMER: Mapping[str, tuple[str, Callable[[allocation.Consumer], Any]]] = {
    "project_id": ("allocation dict form", lambda consumer: consumer.project_id),
    "user_id": ("allocation dict form", lambda consumer: consumer.user_id),
    "consumer_type": ("consumer types", lambda consumer: consumer.consumer_type),
}


class ListConsumers(base.ReportLister):
    """List the consumers of a resource provider, with their resources on it

    One row per consumer. The names of servers come from nova, with one request for each 1000
    servers of the compute node; without nova they are missing. Sends one request per consumer
    for project, user and, from Placement API 1.38, type.
    """

    required_feature = "allocation dict form"
    example = "openstack resource provider consumer list rack1-node7"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        client = self.connect(optional=["consumer types"])
        provider = lookup.find_providers(client, [parsed_args.uuid]).get(parsed_args.uuid)
        if provider is None:
            raise api_errors.UnknownProvider([lookup.unknown_provider(parsed_args.uuid)])
        allocations = client.list_provider_allocations(provider.uuid).allocations
        consumers = self.read_each(
            "reading consumers", client.show_allocations, sorted(allocations)
        )
        names = (
            self._server_names(client, provider, allocations, parsed_args) if allocations else {}
        )
        columns: dict[str, Callable[[allocation.Consumer], Any]] = {
            "consumer": lambda consumer: consumer.uuid,
            "server_name": lambda consumer: names.get(consumer.uuid),
            "project_id": lambda consumer: consumer.project_id,
            "user_id": lambda consumer: consumer.user_id,
        }
        if microversion.supports(client.microversion, "consumer types"):
            columns["consumer_type"] = lambda consumer: consumer.consumer_type
        columns["resources"] = lambda consumer: rows.amounts(
            dict(sorted(allocations[consumer.uuid].resources.items()))
        )
        consumers.sort(key=lambda item: (item.uuid not in names, names.get(item.uuid), item.uuid))
        return rows.listing(columns, consumers)

    def _server_names(
        self,
        client: api.Client,
        shown: provider.Provider,
        consumers: Collection[str],
        parsed_args: argparse.Namespace,
    ) -> dict[str, str]:
        """``{server uuid: name}`` for the consumers on the node of this provider's tree.

        Empty, with a note on stderr, if nova cannot be read.
        """
        from osc_placement.nova import servers

        node = shown
        if shown.root_uuid not in (None, shown.uuid):
            node = client.show_provider(str(shown.root_uuid))
        try:
            nova = services.NovaServices(self).nova
            listed = servers.servers(nova, node=node.name)
        except errors.PlacementError as error:
            if not self.is_quiet:
                sys.stderr.write(f"Without the names of servers: {error}\n")
            return {}
        return {item.uuid: item.name for item in listed if item.uuid in consumers and item.name}
