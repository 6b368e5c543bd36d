"""``placement reshape recipe pcpu``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from osc_placement import errors
from osc_placement.v1 import services
from osc_placement.v1.recipes import recipe_command

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.workflows.context import ReadContext
    from osc_placement.workflows.reshape.recipe import recipe


class WritePcpuRecipe(recipe_command.Recipe):
    """Write the change of VCPU to PCPU for a compute node with dedicated CPUs

    Servers with dedicated CPUs in their flavor or image, as nova reports them, get PCPU;
    others keep VCPU. The command changes nothing: review the document, then run "placement
    reshape" with it.
    """

    example = """\
openstack placement reshape recipe pcpu cn1 --cpu-dedicated-set 4-15 \\
    --out pcpu.yaml"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        recipe_command.add_host(parser)
        parser.add_argument(
            "--cpu-dedicated-set",
            metavar="<cpus>",
            required=True,
            help="The future value in nova.conf: VCPU become PCPU until there are as many PCPU",
        )
        parser.add_argument(
            "--cpu-shared-set",
            metavar="<cpus>",
            help="The future value in nova.conf; the document warns if nova-compute will report"
            " another number of VCPU",
        )
        recipe_command.add_evidence(
            parser,
            "<server>=<class>",
            "The class that a server uses, PCPU or VCPU",
            "the output of 'virsh dumpxml' for servers",
        )
        services.add_recording(parser)
        super().add_arguments(parser)

    def recipe(
        self, client: api.Client, parsed_args: argparse.Namespace, context: ReadContext
    ) -> recipe.Recipe:
        from osc_placement.workflows.reshape.recipe import evidence, pcpu, recipe

        problems = errors.InputErrors()
        pairs = tuple(recipe_command.read_evidence(parsed_args, evidence.cpu_class, problems))
        problems.check()
        request = pcpu.make_request(
            parsed_args.cpu_dedicated_set, parsed_args.cpu_shared_set, pairs
        )
        nova = services.Services(self, parsed_args).nova
        trees, root = recipe.read_tree(client, parsed_args.host, context)
        servers, moves = recipe.servers_of(nova, trees.consumers_of(root, pcpu.VCPU))
        return pcpu.plan_pcpu(trees, root, servers, moves, request)
