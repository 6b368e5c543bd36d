"""``placement reshape recipe vgpu``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from osc_placement import errors
from osc_placement.v1.recipes import recipe_command

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.workflows.context import ReadContext
    from osc_placement.workflows.reshape.recipe import device_recipes, recipe


class WriteVgpuRecipe(recipe_command.Recipe):
    """Write the moves of VGPU from a compute node to its physical GPUs

    Each GPU gets a child provider with the name and the inventory that nova's libvirt driver
    gives it. The command changes nothing: review the document, then run "placement reshape"
    with it. Its comments list the steps on the host.
    """

    example = """\
openstack placement reshape recipe vgpu cn1 \\
    --device pci_0000_84_00_0=4 \\
    --device pci_0000_85_00_0=VGPU:4,SRIOV_NET_VF:2 \\
    --trait pci_0000_84_00_0=CUSTOM_VGPU_A \\
    --assign 0c57cadb-fc21-585e-9f39-000d38c633c0=pci_0000_85_00_0 \\
    --out vgpu.yaml"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        recipe_command.add_host(parser)
        parser.add_argument(
            "--device",
            metavar="<gpu>=<total>",
            action="append",
            required=True,
            help="A physical GPU (libvirt's name or PCI address) and its number of VGPU, or its"
            " inventory, as in VGPU:4,SRIOV_NET_VF:2. May be repeated.",
        )
        recipe_command.add_traits(parser, "<gpu>", "GPU")
        recipe_command.add_evidence(
            parser,
            "<server>=<gpu>",
            "The GPU that a server uses",
            "the output of 'virsh dumpxml' for servers, with that of 'mdevctl list' or 'virsh"
            " nodedev-dumpxml' for their mediated devices",
        )
        super().add_arguments(parser)

    def recipe(
        self, client: api.Client, parsed_args: argparse.Namespace, context: ReadContext
    ) -> recipe.Recipe:
        from osc_placement.workflows.reshape.recipe import device_recipes, recipe

        request = _vgpu_request(parsed_args)
        trees, root = recipe.read_tree(client, parsed_args.host, context)
        return device_recipes.plan_vgpu(trees, root, request)


def _vgpu_request(parsed_args: argparse.Namespace) -> device_recipes.VgpuRequest:
    """Raises InvalidInput for all errors of the arguments."""
    from osc_placement.workflows.reshape.recipe import device_recipes, evidence

    problems = errors.InputErrors()
    devices = tuple(
        device_recipes.Device(*each)
        for each in recipe_command.devices(
            parsed_args, device_recipes.device_name, problems, device_recipes.VGPU
        )
    )
    pairs = tuple(
        (server, device_recipes.device_name(device))
        for server, device in recipe_command.read_evidence(
            parsed_args, evidence.mediated_devices, problems
        )
    )
    problems.check()
    return device_recipes.VgpuRequest(devices, pairs)
