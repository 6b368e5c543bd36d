"""``resource provider consumer list``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from osc_placement import errors, microversion
from osc_placement.client import api_errors, lookup
from osc_placement.v1 import base, services
from osc_placement.v1.options import arguments
from osc_placement.v1.output import rows

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.model import allocation, provider

COLUMNS = ("consumer", "server_name", "project_id", "user_id")
TYPE_COLUMN = ("consumer_type",)


class ListConsumers(base.ReportLister):
    """List the consumers of a resource provider, with their resources on it

    One row per consumer. The names of servers come from nova, with one request for each 1000
    servers of the compute node; without nova they are missing. Sends one request per consumer
    for project, user and, from Placement API 1.38, type.
    """

    writes = False
    required_feature = "allocation dict form"
    example = "openstack resource provider consumer list rack1-node7"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)
        services.add_recording(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        client = self.connect(optional=["consumer types"])
        found = lookup.find_providers(client, [parsed_args.uuid]).get(parsed_args.uuid)
        if found is None:
            raise api_errors.UnknownProvider([lookup.unknown_provider(parsed_args.uuid)])
        held = client.list_provider_allocations(found.uuid).allocations
        consumers = self.read_each("reading consumers", client.show_allocations, sorted(held))
        names = self._server_names(client, found, held, parsed_args) if held else {}
        has_type = microversion.supports(client.microversion, "consumer types")
        data = [
            (item.uuid, names.get(item.uuid), item.project_id, item.user_id)
            + ((item.consumer_type,) if has_type else ())
            + (rows.Amounts(_amounts(held[item.uuid].resources)),)
            for item in consumers
        ]
        data.sort(key=lambda row: (row[1] is None, row[1], row[0]))
        return (*COLUMNS, *(TYPE_COLUMN if has_type else ()), "resources"), data

    def _server_names(
        self,
        client: api.Client,
        found: provider.Provider,
        consumers: Collection[str],
        parsed_args: argparse.Namespace,
    ) -> dict[str, str]:
        """``{server uuid: name}`` for the consumers on the node of this provider's tree.

        Empty, with a note on stderr, if nova cannot be read.
        """
        from osc_placement.nova import servers

        node = found
        if found.root_uuid not in (None, found.uuid):
            node = client.show_provider(str(found.root_uuid))
        try:
            nova = services.Services(self, parsed_args).nova
            listed = servers.servers(nova, node=node.name)
        except errors.PlacementError as error:
            if not self.is_quiet:
                sys.stderr.write(f"Without the names of servers: {error}\n")
            return {}
        return {item.uuid: item.name for item in listed if item.uuid in consumers and item.name}


def _amounts(resources: allocation.Resources) -> dict[str, int]:
    return dict(sorted(resources.items()))
