"""``placement reshape recipe pci``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from osc_placement import errors
from osc_placement.model import name as names
from osc_placement.v1.recipes import recipe_command

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.workflows.context import ReadContext
    from osc_placement.workflows.reshape.recipe import device_recipes, recipe


class WritePciRecipe(recipe_command.Recipe):
    """Write the moves of PCI devices from a compute node to one provider per device

    Each device gets a child provider with the name, the inventory and the traits that
    nova-compute with [pci]report_in_placement gives it. The command changes nothing: review
    the document, then run "placement reshape" with it. Its comments list the steps on the host.
    """

    example = """\
openstack placement reshape recipe pci cn1 \\
    --device 0000:81:00.0=CUSTOM_GPU:1 --device 0000:82:00.0=CUSTOM_GPU:1 \\
    --as CUSTOM_GPU=10de:1eb8 --trait 0000:81:00.0=CUSTOM_FAST \\
    --assign-from evidence --out pci.yaml"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        recipe_command.add_host(parser)
        parser.add_argument(
            "--device",
            metavar="<address>=<class>:<amount>",
            action="append",
            required=True,
            help="The address of a PCI device, or of a physical function for its virtual"
            " functions; and what the node offers for it. May be repeated.",
        )
        parser.add_argument(
            "--as",
            dest="becomes",
            metavar="<class>=<class>",
            action="append",
            default=[],
            help="The new class of a class of the node; 10de:1eb8 is CUSTOM_PCI_10DE_1EB8, nova's"
            " class of these devices. May be repeated.",
        )
        recipe_command.add_traits(parser, "<address>", "device")
        recipe_command.add_evidence(
            parser,
            "<server>=<address>",
            "A device that a server uses, or the physical function of it",
            "the output of 'virsh dumpxml' for servers, and of 'virsh nodedev-dumpxml' for virtual"
            " functions",
        )
        super().add_arguments(parser)

    def recipe(
        self, client: api.Client, parsed_args: argparse.Namespace, context: ReadContext
    ) -> recipe.Recipe:
        from osc_placement.workflows.reshape.recipe import device_recipes, recipe

        request = _request(parsed_args)
        trees, root = recipe.read_tree(client, parsed_args.host, context)
        return device_recipes.plan_pci(trees, root, request)


def _request(parsed_args: argparse.Namespace) -> device_recipes.PciRequest:
    """Raises InvalidInput for all errors of the arguments."""
    from osc_placement.workflows.reshape.recipe import device_recipes, evidence, recipe

    problems = errors.InputErrors()
    devices = tuple(
        recipe.Child(address, resources, traits)
        for address, resources, traits in recipe_command.devices(
            parsed_args, device_recipes.address, problems
        )
    )
    for device in devices:
        if evidence.pci_address(device.name) is None:
            problems.add(f"--device {device.name}: must be a PCI address, such as 0000:81:00.0")
    becomes = _new_classes(parsed_args, problems)
    offered = {name for device in devices for name in device.resources}
    for old in sorted(becomes.keys() - offered):
        problems.add(f"--as {old}: no --device has this class")
    pairs = tuple(
        (server, device_recipes.address(device))
        for server, device in recipe_command.read_evidence(
            parsed_args, evidence.pci_devices, problems
        )
    )
    problems.check()
    return device_recipes.PciRequest(devices, becomes, pairs)


def _new_classes(parsed_args: argparse.Namespace, problems: errors.InputErrors) -> dict[str, str]:
    """``{class of the node: new class}``"""
    from osc_placement.workflows.reshape.recipe import device_recipes

    becomes: dict[str, str] = {}
    for old, text in recipe_command.pairs("--as", parsed_args.becomes, problems):
        new = device_recipes.class_name(text)
        if old in becomes:
            problems.add(f"--as {old}: given more than once")
        elif not names.is_symbol(new):
            problems.add(
                f"--as {old}: {text!r} is neither a resource class, such as CUSTOM_GPU, nor"
                " vendor:product, such as 10de:1eb8"
            )
        becomes[old] = new
    return becomes
