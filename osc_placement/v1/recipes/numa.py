"""``placement reshape recipe numa``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from osc_placement import errors
from osc_placement.v1.recipes import recipe_command

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.workflows.context import ReadContext
    from osc_placement.workflows.reshape.recipe import recipe


class WriteNumaRecipe(recipe_command.Recipe):
    """Write the moves of CPUs and memory from a node to one provider per NUMA node

    No release of nova reports this shape: "placement reshape" refuses it for nodes of
    nova-compute. The command changes nothing: review the document, then run "placement
    reshape" with it.
    """

    example = """\
openstack placement reshape recipe numa cn1 \\
    --numa-node 0=PCPU:16,MEMORY_MB:131072 \\
    --numa-node 1=PCPU:16,MEMORY_MB:131072 \\
    --assign-from evidence --out numa.yaml"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        recipe_command.add_host(parser)
        parser.add_argument(
            "--numa-node",
            metavar="<number>=<class>:<amount>",
            action="append",
            required=True,
            help="A NUMA node and its resources, as in 0=PCPU:16,MEMORY_MB:131072. May be"
            " repeated.",
        )
        recipe_command.add_evidence(
            parser,
            "<server>=<number>",
            "The NUMA node that a server uses",
            "the output of 'virsh dumpxml' for servers",
        )
        super().add_arguments(parser)

    def recipe(
        self, client: api.Client, parsed_args: argparse.Namespace, context: ReadContext
    ) -> recipe.Recipe:
        from osc_placement.workflows.reshape.recipe import evidence, numa, recipe

        problems = errors.InputErrors()
        nodes = list(_nodes(parsed_args, problems))
        pairs = tuple(recipe_command.read_evidence(parsed_args, evidence.numa_nodes, problems))
        problems.check()
        trees, root = recipe.read_tree(client, parsed_args.host, context)
        return numa.plan_numa(trees, root, nodes, pairs)


def _nodes(parsed_args: argparse.Namespace, problems: errors.InputErrors) -> list[recipe.Child]:
    from osc_placement.workflows.reshape.recipe import recipe

    option, nodes = "--numa-node", []
    for number, offered in recipe_command.pairs(option, parsed_args.numa_node, problems):
        if not number.isdecimal():
            problems.add(f"{option} {number}: must be the number of a NUMA node")
        resources = recipe_command.resources(option, offered, problems)
        nodes.append(recipe.Child(number, resources))
    return nodes
