# SPDX-License-Identifier: Apache-2.0
"""``placement recipe``: each command writes a document for ``placement reshape``."""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from osc_placement import errors, microversion
from osc_placement.model.name import canonical_uuid, is_symbol, is_uuid
from osc_placement.v1.common import arguments, base, services

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.workflows.cloud.context import ReadContext
    from osc_placement.workflows.reshape import evidence, recipes, replace_host
    from osc_placement.workflows.reshape.snapshot import TreeSnapshot


#: The recipe for a tree, and the UUID of its root.
Planner = Callable[["TreeSnapshot", str], "recipes.Recipe"]


class RecipeCommand(base.Command):
    """A command that writes a document for ``placement reshape``. It changes nothing."""

    writes = False
    required_feature = "reshaper"
    default_version: ClassVar[microversion.Microversion] = microversion.MAXIMUM

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_file(
            parser,
            "--out",
            "Write the document to this file, which must not exist (default: stdout)",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from osc_placement.plan import file
        from osc_placement.workflows.cloud.context import ReadContext
        from osc_placement.workflows.reshape import recipes

        if parsed_args.out is not None:
            # An existing document may have been edited.
            file.check_new(parsed_args.out)
        text = recipes.write(self.recipe(self.connect(), parsed_args, ReadContext()))
        if parsed_args.out is None:
            sys.stdout.write(text)
        else:
            file.replace(parsed_args.out, [text])

    def recipe(
        self, client: api.Client, parsed_args: argparse.Namespace, context: ReadContext
    ) -> recipes.Recipe:
        """Read the cloud and plan the moves."""
        raise NotImplementedError


class NodeRecipe(RecipeCommand):
    """A recipe for one compute node, with evidence on what its servers use."""

    #: The form of ``--assign``, what it says, and the output that its files may have.
    evidence: ClassVar[tuple[str, str, str]]

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("host", metavar="<provider>", help="Name or UUID of the compute node")
        self.add_changes(parser)
        form, what, output = self.evidence
        text = f"{what}. @<file> reads a file with these, one per line, or with {output}."
        arguments.add_repeated(parser, "--assign", form, text)
        super().add_arguments(parser)

    def add_changes(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for what changes on the node."""
        raise NotImplementedError

    def recipe(
        self, client: api.Client, parsed_args: argparse.Namespace, context: ReadContext
    ) -> recipes.Recipe:
        from osc_placement.workflows.reshape import recipes

        inputs = RecipeInput(parsed_args)
        plan = self.planner(inputs)
        inputs.problems.check()
        return plan(*recipes.read_tree(client, parsed_args.host, context))

    def planner(self, inputs: RecipeInput) -> Planner:
        """Read the arguments; what plans the moves in the tree of a root (a UUID)."""
        raise NotImplementedError


def add_traits(parser: argparse.ArgumentParser, form: str, what: str) -> None:
    """The option for the traits of new providers."""
    arguments.add_repeated(
        parser, "--trait", f"{form}=<trait>", f"A trait of this {what}'s provider."
    )


class RecipeInput:
    """The arguments of a recipe, of the form ``<name>=<value>``; every error is collected."""

    def __init__(self, parsed_args: argparse.Namespace) -> None:
        self.parsed_args, self.problems = parsed_args, errors.InputErrors()

    def pairs(self, option: str, texts: Iterable[str]) -> Iterator[tuple[str, str]]:
        """``(name, value)`` of each text."""
        for text in texts:
            name, equals, value = text.partition("=")
            if name and equals and value:
                yield name, value
            else:
                self.problems.add(f"{option} {text}: must be of the form <name>=<value>")

    def mapping(self, option: str, texts: Iterable[str]) -> dict[str, str]:
        """``{name: value}`` of texts with different names."""
        values: dict[str, str] = {}
        for name, value in self.pairs(option, texts):
            if values.setdefault(name, value) != value:
                self.problems.add(f"{option} {name}: given more than once")
        return values

    def devices(self, name: Callable[[str], str], default: str = "") -> list[recipes.Child]:
        """The devices with resources and traits; ``name`` returns the canonical form of a name."""
        from osc_placement.workflows.reshape import recipes

        devices: list[recipes.Child] = []
        traits: dict[str, list[str]] = {}
        for text, trait in self.pairs("--trait", self.parsed_args.trait):
            traits.setdefault(name(text), []).append(trait)
        for text, offered in self.pairs("--device", self.parsed_args.device):
            device, resources = name(text), self._resources(offered, default)
            devices.append(recipes.Child(device, resources, tuple(traits.pop(device, ()))))
        for device in traits:
            self.problems.add(f"--trait {device}: no --device has this name")
        return devices

    def _resources(self, text: str, default: str) -> dict[str, int]:
        """``{resource class: amount}``; ``4`` is 4 of the default class, if there is one."""
        example = "4 or SRIOV_NET_VF:2" if default else "PCPU:16"
        amounts: dict[str, int] = {}
        for part in text.split(","):
            name, colon, amount = part.rpartition(":")
            resource_class = name if colon else default
            if resource_class in amounts:
                self.problems.add(f"--device {text}: {resource_class} is given more than once")
            elif amount.isdecimal() and int(amount) and resource_class:
                amounts[resource_class] = int(amount)
            else:
                self.problems.add(f"--device: {part!r} is not an amount, such as {example}")
        return amounts

    def new_classes(self) -> dict[str, str]:
        """``{class of the node: new class}`` of ``--as``."""
        from osc_placement.workflows.reshape import device_recipes

        named = self.mapping("--as", self.parsed_args.becomes)
        becomes = {old: device_recipes.class_name(text) for old, text in named.items()}
        for old, new in becomes.items():
            if not is_symbol(new):
                self.problems.add(
                    f"--as {old}: {new!r} is neither a resource class, such as CUSTOM_GPU, nor"
                    " vendor:product, such as 10de:1eb8"
                )
        return becomes

    def models(self) -> dict[str, int]:
        """``{model of encryption: number of servers}`` of ``--model``."""
        from osc_placement.scheduling.traits import ENCRYPTION_MODELS

        models: dict[str, int] = {}
        for model, total in self.mapping("--model", self.parsed_args.model).items():
            if model not in ENCRYPTION_MODELS:
                self.problems.add(f"--model {model}: the models are {', '.join(ENCRYPTION_MODELS)}")
            elif not total.isdecimal() or not int(total):
                self.problems.add(f"--model {model}: {total!r} is not a number of servers")
            else:
                models[model] = int(total)
        return models

    def evidence(
        self, reader: evidence.Reader, name: Callable[[str], str] = str
    ) -> tuple[tuple[str, str], ...]:
        """``(server uuid, what it uses)`` from ``--assign`` and its files."""
        from osc_placement.workflows.reshape import evidence

        assigned = self.parsed_args.assign
        lines = "\n".join(text for text in assigned if not text.startswith("@"))
        paths = [pathlib.Path(text[1:]) for text in assigned if text.startswith("@")]
        files = [(str(path), arguments.read_file(path)) for path in paths]
        uses, reasons = evidence.read([("--assign", lines), *files], reader)
        self.problems.reasons += reasons
        return tuple((server, name(used)) for server, used in uses)


class WriteVgpuRecipe(NodeRecipe):
    """Write the moves of VGPU from a compute node to its physical GPUs

    Each GPU gets a child provider with the name and the inventory that nova's libvirt driver
    gives it. The command changes nothing: review the document, then run "placement reshape"
    with it. Its comments list the steps on the host.
    """

    example = """\
openstack placement recipe vgpu cn1 \\
    --device pci_0000_84_00_0=4 \\
    --device pci_0000_85_00_0=VGPU:4,SRIOV_NET_VF:2 \\
    --trait pci_0000_84_00_0=CUSTOM_VGPU_A \\
    --assign 0c57cadb-fc21-585e-9f39-000d38c633c0=pci_0000_85_00_0 \\
    --out vgpu.yaml"""

    evidence = (
        "<server>=<gpu>",
        "The GPU that a server uses",
        "the output of 'virsh dumpxml' for servers, with that of 'mdevctl list' for their"
        " mediated devices",
    )

    def add_changes(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_repeated(
            parser,
            "--device",
            "<gpu>=<total>",
            "A physical GPU (libvirt's name or PCI address) and its number of VGPU, or its"
            " inventory, as in VGPU:4,SRIOV_NET_VF:2.",
            required=True,
        )
        add_traits(parser, "<gpu>", "GPU")

    def planner(self, inputs: RecipeInput) -> Planner:
        from osc_placement.workflows.reshape import device_recipes, evidence

        name = device_recipes.device_name
        devices = inputs.devices(name, device_recipes.VGPU)
        uses = inputs.evidence(evidence.mediated_devices, name)
        return lambda trees, root: device_recipes.plan_vgpu(trees, root, devices, uses)


class WritePciRecipe(NodeRecipe):
    """Write the moves of PCI devices from a compute node to one provider per device

    Each device gets a child provider with the name, the inventory and the traits that
    nova-compute with [pci]report_in_placement gives it. The command changes nothing: review
    the document, then run "placement reshape" with it. Its comments list the steps on the host.
    """

    example = """\
openstack placement recipe pci cn1 \\
    --device 0000:81:00.0=CUSTOM_GPU:1 --device 0000:82:00.0=CUSTOM_GPU:1 \\
    --as CUSTOM_GPU=10de:1eb8 --trait 0000:81:00.0=CUSTOM_FAST \\
    --assign @evidence --out pci.yaml"""

    evidence = (
        "<server>=<address>",
        "A device that a server uses, or the physical function of it",
        "the output of 'virsh dumpxml' for servers, and of 'virsh nodedev-dumpxml' for virtual"
        " functions",
    )

    def add_changes(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_repeated(
            parser,
            "--device",
            "<address>=<class>:<amount>",
            "The address of a PCI device, or of a physical function for its virtual"
            " functions; and what the node offers for it.",
            required=True,
        )
        arguments.add_repeated(
            parser,
            "--as",
            "<class>=<class>",
            "The new class of a class of the node; 10de:1eb8 is CUSTOM_PCI_10DE_1EB8, nova's"
            " class of these devices.",
            dest="becomes",
        )
        add_traits(parser, "<address>", "device")

    def planner(self, inputs: RecipeInput) -> Planner:
        from osc_placement.workflows.reshape import device_recipes, evidence

        devices, problems = inputs.devices(device_recipes.address), inputs.problems
        for device in devices:
            if evidence.pci_address(device.name) is None:
                problems.add(f"--device {device.name}: must be a PCI address, such as 0000:81:00.0")
        becomes = inputs.new_classes()
        offered = {name for device in devices for name in device.resources}
        for old in sorted(becomes.keys() - offered):
            problems.add(f"--as {old}: no --device has this class")
        uses = inputs.evidence(evidence.pci_devices, device_recipes.address)
        return lambda trees, root: device_recipes.plan_pci(trees, root, devices, becomes, uses)


class WriteSevRecipe(NodeRecipe):
    """Write the move of MEM_ENCRYPTION_CONTEXT from a compute node to <node>_amd_sev

    Nova reports memory encryption on one child provider per model. The command changes
    nothing: review the document, then run "placement reshape" with it.
    """

    example = """\
openstack placement recipe sev cn1 --out sev.yaml
openstack placement recipe sev cn1 \\
    --model amd-sev=10 --model amd-sev-es=5 --assign @evidence"""

    evidence = (
        "<server>=<model>",
        "The model that a server uses",
        "the output of 'virsh dumpxml' for servers",
    )

    def add_changes(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_repeated(
            parser,
            "--model",
            "<model>=<total>",
            "A model (amd-sev, amd-sev-es, amd-sev-snp or intel-tdx) and its number of"
            " encrypted servers. May be repeated. Default: amd-sev with all.",
        )

    def planner(self, inputs: RecipeInput) -> Planner:
        from osc_placement.workflows.reshape import device_recipes, evidence

        models = inputs.models()
        uses = inputs.evidence(evidence.encryption_model)
        return lambda trees, root: device_recipes.plan_sev(trees, root, models, uses)


class WritePcpuRecipe(NodeRecipe):
    """Write the change of VCPU to PCPU for a compute node with dedicated CPUs

    Servers with dedicated CPUs in their flavor or image, as nova reports them, get PCPU;
    others keep VCPU. The command changes nothing: review the document, then run "placement
    reshape" with it.
    """

    example = """\
openstack placement recipe pcpu cn1 --cpu-dedicated-set 4-15 \\
    --out pcpu.yaml"""

    evidence = (
        "<server>=<class>",
        "The class that a server uses, PCPU or VCPU",
        "the output of 'virsh dumpxml' for servers",
    )

    def add_changes(self, parser: argparse.ArgumentParser) -> None:
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

    def planner(self, inputs: RecipeInput) -> Planner:
        from osc_placement.workflows.reshape import evidence, pcpu, recipes

        uses = inputs.evidence(evidence.cpu_class)
        inputs.problems.check()
        parsed_args = inputs.parsed_args
        cpus = parsed_args.cpu_dedicated_set, parsed_args.cpu_shared_set
        request = pcpu.make_request(*cpus, uses)
        nova = services.NovaServices(self).nova

        def plan(trees: TreeSnapshot, root: str) -> recipes.Recipe:
            servers, moves = recipes.servers_of(nova, trees.consumers_of(root, pcpu.VCPU))
            return pcpu.plan_pcpu(trees, root, servers, moves, request)

        return plan


class WriteReplaceHostRecipe(RecipeCommand):
    """Write the moves from a compute node to its renamed or rebuilt successor

    The new provider gets the inventories, allocations, traits, aggregates and children of
    the old one. Nova's services on both hosts must be down and disabled, and the servers must
    be on the new host. The command changes nothing: review the document, then run "placement
    reshape" with it.
    """

    example = """\
openstack placement recipe replace-host cn1 cn2 \\
    --uuid 0f8b1f2c-55c5-4c6f-8a8e-6b0a5f3b1d20 --out replace.yaml
openstack placement recipe replace-host cn1 cn1.example.org"""

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
        super().add_arguments(parser)

    def recipe(
        self, client: api.Client, parsed_args: argparse.Namespace, context: ReadContext
    ) -> recipes.Recipe:
        from osc_placement.workflows.reshape import observe, recipes, replace_host

        uuid = parsed_args.uuid
        if uuid is not None and not is_uuid(uuid):
            self.usage_error(f"argument --uuid: {uuid!r} is not a UUID")
        nova = services.NovaServices(self).nova
        request = _replacement(client, parsed_args)
        roots = {request.old.uuid}
        if request.new is not None:
            roots.add(request.new.root_uuid or request.new.uuid)
        observed = observe.read_trees(client, roots, context)
        nova_state = recipes.nova_state(nova, observed.consumers)
        if any(node.provider.parent_uuid == request.old.uuid for node in observed.inside.values()):
            client.require_feature("re-parenting", "taking children along")
        return replace_host.plan_replacement(observed, nova_state, request)


def _replacement(
    client: api.Client, parsed_args: argparse.Namespace
) -> replace_host.ReplaceHostRequest:
    from osc_placement.client import lookup
    from osc_placement.workflows.reshape import recipes, replace_host

    old = recipes.find_root(client, parsed_args.old)
    uuid = canonical_uuid(parsed_args.uuid) if parsed_args.uuid else ""
    providers = lookup.find_providers(client, filter(None, (uuid, parsed_args.new)))
    new = providers.get(uuid) or providers.get(parsed_args.new)
    if new is not None and new.uuid == old.uuid:
        new = None
    is_named_by_uuid = is_uuid(parsed_args.new)
    name = new.name if new is not None and is_named_by_uuid else parsed_args.new
    return replace_host.ReplaceHostRequest(old, name, new, uuid, parsed_args.host or "")
