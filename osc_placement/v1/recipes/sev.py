"""``placement reshape recipe sev``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from osc_placement import errors
from osc_placement.v1.recipes import recipe_command

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.workflows.context import ReadContext
    from osc_placement.workflows.reshape.recipe import recipe


class WriteSevRecipe(recipe_command.Recipe):
    """Write the move of MEM_ENCRYPTION_CONTEXT from a compute node to <node>_amd_sev

    Nova reports memory encryption on one child provider per model. The command changes
    nothing: review the document, then run "placement reshape" with it.
    """

    example = """\
openstack placement reshape recipe sev cn1 --out sev.yaml
openstack placement reshape recipe sev cn1 \\
    --model amd-sev=10 --model amd-sev-es=5 --assign-from evidence"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        recipe_command.add_host(parser)
        parser.add_argument(
            "--model",
            metavar="<model>=<total>",
            action="append",
            default=[],
            help="A model (amd-sev, amd-sev-es, amd-sev-snp or intel-tdx) and its number of"
            " encrypted servers. May be repeated. Default: amd-sev with all.",
        )
        recipe_command.add_evidence(
            parser,
            "<server>=<model>",
            "The model that a server uses",
            "the output of 'virsh dumpxml' for servers",
        )
        super().add_arguments(parser)

    def recipe(
        self, client: api.Client, parsed_args: argparse.Namespace, context: ReadContext
    ) -> recipe.Recipe:
        from osc_placement.workflows.reshape.recipe import device_recipes, evidence, recipe

        problems = errors.InputErrors()
        models = _models(parsed_args, problems)
        pairs = tuple(
            recipe_command.read_evidence(parsed_args, evidence.encryption_model, problems)
        )
        problems.check()
        trees, root = recipe.read_tree(client, parsed_args.host, context)
        return device_recipes.plan_sev(trees, root, models, pairs)


def _models(parsed_args: argparse.Namespace, problems: errors.InputErrors) -> dict[str, int]:
    from osc_placement.workflows.reshape.recipe import device_recipes

    models: dict[str, int] = {}
    for model, total in recipe_command.pairs("--model", parsed_args.model, problems):
        if model not in device_recipes.MODEL_TRAITS:
            problems.add(
                f"--model {model}: the models are {', '.join(device_recipes.MODEL_TRAITS)}"
            )
        elif model in models:
            problems.add(f"the model {model} is given more than once")
        elif not total.isdecimal() or not int(total):
            problems.add(f"--model {model}: {total!r} is not a number of servers")
        else:
            models[model] = int(total)
    return models
