"""``placement reshape recipe replace-host``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from osc_placement.model import name as names
from osc_placement.v1 import services
from osc_placement.v1.recipes import recipe_command

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.workflows.context import ReadContext
    from osc_placement.workflows.reshape.recipe import recipe, replace_host


class WriteReplaceHostRecipe(recipe_command.Recipe):
    """Write the moves from a compute node to its renamed or rebuilt successor

    The new provider gets the inventories, allocations, traits, aggregates and children of
    the old one. Nova's services on both hosts must be down and disabled, and the servers must
    be on the new host. The command changes nothing: review the document, then run "placement
    reshape" with it.
    """

    example = """\
openstack placement reshape recipe replace-host cn1 cn1 \\
    --uuid 0f8b1f2c-55c5-4c6f-8a8e-6b0a5f3b1d20 --out replace.yaml
openstack placement reshape recipe replace-host cn1 cn1.example.org"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("old", metavar="<old>", help="Name or UUID of the old provider")
        parser.add_argument(
            "new",
            metavar="<new>",
            help="Name of the new provider: the name of nova-compute's node; or its UUID, if it"
            " exists",
        )
        parser.add_argument(
            "--uuid",
            metavar="<uuid>",
            help="UUID of the new provider (/var/lib/nova/compute_id), if neither Placement nor"
            " nova knows it",
        )
        parser.add_argument(
            "--host",
            metavar="<host>",
            help="Nova's name of the new host (default: from nova, or the old host's name)",
        )
        services.add_recording(parser)
        super().add_arguments(parser)

    def recipe(
        self, client: api.Client, parsed_args: argparse.Namespace, context: ReadContext
    ) -> recipe.Recipe:
        from osc_placement.workflows.reshape import observe
        from osc_placement.workflows.reshape.recipe import recipe, replace_host

        uuid = parsed_args.uuid
        if uuid is not None and not names.is_uuid(uuid):
            self.usage_error(f"argument --uuid: {uuid!r} is not a UUID")
        nova = services.Services(self, parsed_args).nova
        request = _replacement(client, parsed_args)
        roots = {request.old.uuid}
        if request.new is not None:
            roots.add(request.new.root_uuid or request.new.uuid)
        observed = observe.read_trees(client, roots, context)
        nova_state = recipe.nova_state(nova, observed.consumers)
        if any(node.provider.parent_uuid == request.old.uuid for node in observed.inside.values()):
            client.require_feature("re-parenting", "taking children along")
        return replace_host.plan_replacement(observed, nova_state, request)


def _replacement(client: api.Client, parsed_args: argparse.Namespace) -> replace_host.Request:
    from osc_placement.client import lookup
    from osc_placement.workflows.reshape.recipe import recipe, replace_host

    old = recipe.find_root(client, parsed_args.old)
    uuid = names.canonical_uuid(parsed_args.uuid) if parsed_args.uuid else None
    found = lookup.find_providers(client, filter(None, (uuid, parsed_args.new)))
    new = found.get(uuid or "") or found.get(parsed_args.new)
    if new is not None and new.uuid == old.uuid:
        new = None
    given = names.is_uuid(parsed_args.new)
    name = new.name if new is not None and given else parsed_args.new
    return replace_host.Request(old, name, new, uuid, parsed_args.host)
