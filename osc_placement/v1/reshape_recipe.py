"""``placement reshape recipe vgpu | pcpu | replace-host``."""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from osc_placement import errors, microversion
from osc_placement.model import name as names
from osc_placement.v1 import base, services
from osc_placement.v1.options import arguments

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.workflows.context import ReadContext
    from osc_placement.workflows.reshape.recipe import (
        evidence,
        replacement,
        vgpu,
        yaml_writer,
    )


class Recipe(base.Command):
    """A command that writes a document for ``placement reshape``. It changes nothing."""

    writes = False
    required_feature = "reshaper"
    default_version: ClassVar[microversion.Microversion] = microversion.MAXIMUM

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--out",
            metavar="<file>",
            type=pathlib.Path,
            help="Write the document to this file, which must not exist (default: stdout)",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from osc_placement.workflows.context import ReadContext
        from osc_placement.workflows.reshape.recipe import yaml_writer

        client = self.connect()
        text = yaml_writer.write(self.recipe(client, parsed_args, ReadContext()))
        if parsed_args.out is None:
            sys.stdout.write(text)
        else:
            _write(parsed_args.out, text)

    def recipe(
        self, client: api.Client, parsed_args: argparse.Namespace, context: ReadContext
    ) -> yaml_writer.Recipe:
        """Read the cloud and plan the moves."""
        raise NotImplementedError


class WriteVgpuRecipe(Recipe):
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
        parser.add_argument("host", metavar="<provider>", help="Name or UUID of the compute node")
        parser.add_argument(
            "--device",
            metavar="<gpu>=<total>",
            action="append",
            required=True,
            help="A physical GPU (libvirt's name or PCI address) and its number of VGPU, or its"
            " inventory, as in VGPU:4,SRIOV_NET_VF:2. May be repeated.",
        )
        parser.add_argument(
            "--trait",
            metavar="<gpu>=<trait>",
            action="append",
            default=[],
            help="A trait of this GPU's provider. May be repeated.",
        )
        _add_evidence(
            parser,
            "<server>=<gpu>",
            "The GPU that a server uses",
            "the output of 'virsh dumpxml' for servers, with that of 'mdevctl list' or 'virsh"
            " nodedev-dumpxml' for their mediated devices",
        )
        super().add_arguments(parser)

    def recipe(
        self, client: api.Client, parsed_args: argparse.Namespace, context: ReadContext
    ) -> yaml_writer.Recipe:
        from osc_placement.workflows.reshape import observe
        from osc_placement.workflows.reshape.recipe import read, vgpu

        request = _vgpu_request(parsed_args)
        root = read.find_root(client, parsed_args.host)
        return vgpu.plan_vgpu(observe.read_trees(client, [root.uuid], context), root.uuid, request)


class WritePcpuRecipe(Recipe):
    """Write the change of VCPU to PCPU for a compute node with dedicated CPUs

    Servers with dedicated CPUs in their flavor or image, as nova reports them, get PCPU;
    others keep VCPU. The command changes nothing: review the document, then run "placement
    reshape" with it.
    """

    example = """\
openstack placement reshape recipe pcpu cn1 --cpu-dedicated-set 4-15 \\
    --out pcpu.yaml"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("host", metavar="<provider>", help="Name or UUID of the compute node")
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
        _add_evidence(
            parser,
            "<server>=<class>",
            "The class that a server uses, PCPU or VCPU",
            "the output of 'virsh dumpxml' for servers",
        )
        services.add_recording(parser)
        super().add_arguments(parser)

    def recipe(
        self, client: api.Client, parsed_args: argparse.Namespace, context: ReadContext
    ) -> yaml_writer.Recipe:
        from osc_placement.workflows.reshape import observe
        from osc_placement.workflows.reshape.recipe import evidence, pcpu, read

        problems = errors.InputErrors()
        pairs = tuple(_evidence(parsed_args, evidence.cpu_class, problems))
        problems.check()
        request = pcpu.make_request(
            parsed_args.cpu_dedicated_set, parsed_args.cpu_shared_set, pairs
        )
        nova = services.Services(self, parsed_args).nova
        root = read.find_root(client, parsed_args.host)
        observed = observe.read_trees(client, [root.uuid], context)
        servers, moves = read.servers_of(nova, observed.consumers_of(root.uuid, pcpu.VCPU))
        return pcpu.plan_pcpu(observed, root.uuid, servers, moves, request)


class WriteReplaceHostRecipe(Recipe):
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
    ) -> yaml_writer.Recipe:
        from osc_placement.workflows.reshape import observe
        from osc_placement.workflows.reshape.recipe import read, replace_host

        uuid = parsed_args.uuid
        if uuid is not None and not names.is_uuid(uuid):
            self.usage_error(f"argument --uuid: {uuid!r} is not a UUID")
        nova = services.Services(self, parsed_args).nova
        request = _replacement(client, parsed_args)
        roots = {request.old.uuid}
        if request.new is not None:
            roots.add(request.new.root_uuid or request.new.uuid)
        observed = observe.read_trees(client, roots, context)
        nova_state = read.nova_state(nova, observed.consumers)
        if any(node.provider.parent_uuid == request.old.uuid for node in observed.inside.values()):
            client.require_feature("re-parenting", "taking children along")
        return replace_host.plan_replacement(observed, nova_state, request)


def _replacement(client: api.Client, parsed_args: argparse.Namespace) -> replacement.Request:
    from osc_placement.client import lookup
    from osc_placement.workflows.reshape.recipe import read, replacement

    old = read.find_root(client, parsed_args.old)
    uuid = names.canonical_uuid(parsed_args.uuid) if parsed_args.uuid else None
    found = lookup.find_providers(client, filter(None, (uuid, parsed_args.new)))
    new = found.get(uuid or "") or found.get(parsed_args.new)
    if new is not None and new.uuid == old.uuid:
        new = None
    given = names.is_uuid(parsed_args.new)
    name = new.name if new is not None and given else parsed_args.new
    return replacement.Request(old, name, new, uuid, parsed_args.host)


def _vgpu_request(parsed_args: argparse.Namespace) -> vgpu.Request:
    """Raises InvalidInput for all errors of the arguments."""
    from osc_placement.workflows.reshape.recipe import evidence, vgpu

    problems = errors.InputErrors()
    traits: dict[str, list[str]] = {}
    for device, trait in _pairs("--trait", parsed_args.trait, problems):
        traits.setdefault(vgpu.device_name(device), []).append(trait)
    devices = []
    for given, offered in _pairs("--device", parsed_args.device, problems):
        device = vgpu.device_name(given)
        resources = dict(_resources(offered, problems))
        devices.append(vgpu.Device(device, resources, tuple(traits.pop(device, ()))))
    for device in traits:
        problems.add(f"--trait {device}: no --device has this name")
    pairs = tuple(
        (server, vgpu.device_name(device))
        for server, device in _evidence(parsed_args, evidence.mediated_devices, problems)
    )
    problems.check()
    return vgpu.Request(tuple(devices), pairs)


def _add_evidence(parser: argparse.ArgumentParser, form: str, what: str, output: str) -> None:
    parser.add_argument(
        "--assign", metavar=form, action="append", default=[], help=f"{what}. May be repeated."
    )
    parser.add_argument(
        "--assign-from",
        metavar="<file>",
        type=pathlib.Path,
        action="append",
        default=[],
        help=f"A file with more of these, one per line, or with {output}. May be repeated.",
    )


def _evidence(
    parsed_args: argparse.Namespace, reader: evidence.Reader, problems: errors.InputErrors
) -> Iterator[tuple[str, str]]:
    """``(server uuid, what it uses)`` from the command line and the files."""
    from osc_placement.workflows.reshape.recipe import evidence

    for server, uses in _pairs("--assign", parsed_args.assign, problems):
        if names.is_uuid(server):
            yield names.canonical_uuid(server), uses
        else:
            problems.add(f"--assign {server}: not a UUID")
    files = ((str(path), arguments.read_file(path)) for path in parsed_args.assign_from)
    yield from evidence.read(files, reader, problems)


def _pairs(
    option: str, texts: Iterable[str], problems: errors.InputErrors
) -> Iterator[tuple[str, str]]:
    for text in texts:
        one, equals, other = text.partition("=")
        if one and equals and other:
            yield one, other
        else:
            problems.add(f"{option} {text}: must be of the form <name>=<value>")


def _resources(text: str, problems: errors.InputErrors) -> Iterator[tuple[str, int]]:
    """``(resource class, amount)``; ``4`` is ``VGPU:4``."""
    for part in text.split(","):
        resource_class, colon, amount = part.rpartition(":")
        if amount.isdecimal() and int(amount) and (resource_class or not colon):
            yield resource_class or "VGPU", int(amount)
        else:
            problems.add(f"--device: {part!r} is not an amount, such as 4 or SRIOV_NET_VF:2")


def _write(path: pathlib.Path, text: str) -> None:
    """Raises PlacementError, also for an existing file, which the operator may have edited."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise errors.PlacementError(f"{path} cannot be written: {error}") from error
