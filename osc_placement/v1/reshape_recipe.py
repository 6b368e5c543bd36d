"""``placement reshape recipe vgpu | pcpu | replace-host``."""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from osc_placement import errors, microversion
from osc_placement.model import name as names
from osc_placement.v1 import base, nova

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.workflows import context
    from osc_placement.workflows.reshape.recipe import replacement, vgpu, yaml_writer


class Recipe(base.Command):
    """A command that writes a document for ``placement reshape``, and changes nothing."""

    required_feature = "reshaper"
    default_version: ClassVar[microversion.Microversion] = microversion.MAXIMUM

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--out",
            metavar="<file>",
            type=pathlib.Path,
            help="Write the document to this file, which must not be there yet (default: stdout)",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from osc_placement.workflows import context
        from osc_placement.workflows.reshape.recipe import yaml_writer

        client = self.connect()
        text = yaml_writer.write(self.recipe(client, parsed_args, context.ReadContext()))
        if parsed_args.out is None:
            sys.stdout.write(text)
        else:
            _write(parsed_args.out, text)

    def recipe(
        self, client: api.Client, parsed_args: argparse.Namespace, reading: context.ReadContext
    ) -> yaml_writer.Recipe:
        """Read what there is, and decide."""
        raise NotImplementedError


class WriteVgpuRecipe(Recipe):
    """Write the moves of VGPU from a compute node to its physical GPUs

    Each GPU gets a provider below the compute node's, called as nova's libvirt driver calls
    it, with the inventory that the driver writes. Nothing is changed: the document goes to
    "placement reshape", when it has been read. Its comments tell what to do on the host.
    """

    example = """\
openstack placement reshape recipe vgpu cn1 \\
    --device pci_0000_84_00_0=4 \\
    --device pci_0000_85_00_0=VGPU:4,SRIOV_NET_VF:2 \\
    --trait pci_0000_84_00_0=CUSTOM_VGPU_A \\
    --assign 0c57cadb-fc21-585e-9f39-000d38c633c0=pci_0000_85_00_0 \\
    --out vgpu.yaml"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("host", metavar="<provider>", help="The compute node: name or UUID")
        parser.add_argument(
            "--device",
            metavar="<gpu>=<total>",
            action="append",
            required=True,
            help="A physical GPU, by libvirt's name or its PCI address, and how many VGPU it"
            " offers; or what it offers, as in VGPU:4,SRIOV_NET_VF:2. May be repeated.",
        )
        parser.add_argument(
            "--trait",
            metavar="<gpu>=<trait>",
            action="append",
            default=[],
            help="A trait that this GPU's provider gets. May be repeated.",
        )
        _add_evidence(parser, "<server>=<gpu>", "Which GPU a server really uses")
        super().add_arguments(parser)

    def recipe(
        self, client: api.Client, parsed_args: argparse.Namespace, reading: context.ReadContext
    ) -> yaml_writer.Recipe:
        from osc_placement.workflows.reshape.recipe import read, vgpu

        request = _vgpu_request(parsed_args)
        root = read.find_root(client, parsed_args.host)
        return vgpu.plan_vgpu(read.trees(client, [root.uuid], reading), root.uuid, request)


class WritePcpuRecipe(Recipe):
    """Write the change of VCPU to PCPU for a compute node with dedicated CPUs

    Servers whose flavor or image asks for dedicated CPUs, as nova tells it, take PCPU, and
    others keep VCPU. Nothing is changed: the document goes to "placement reshape", when it
    has been read.
    """

    example = """\
openstack placement reshape recipe pcpu cn1 --cpu-dedicated-set 4-15 \\
    --out pcpu.yaml"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("host", metavar="<provider>", help="The compute node: name or UUID")
        parser.add_argument(
            "--cpu-dedicated-set",
            metavar="<cpus>",
            required=True,
            help="As nova.conf will have it: so many VCPU become PCPU",
        )
        parser.add_argument(
            "--cpu-shared-set",
            metavar="<cpus>",
            help="As nova.conf will have it, to be told where nova-compute will report others",
        )
        _add_evidence(parser, "<server>=<class>", "Which class a server really uses, PCPU or VCPU")
        nova.add_recording(parser)
        super().add_arguments(parser)

    def recipe(
        self, client: api.Client, parsed_args: argparse.Namespace, reading: context.ReadContext
    ) -> yaml_writer.Recipe:
        from osc_placement.workflows.reshape.recipe import pcpu, read

        shared, faults = parsed_args.cpu_shared_set, errors.InputErrors()
        evidence = tuple(_evidence(parsed_args, faults))
        faults.check()
        request = pcpu.Request(
            pcpu.count_cpus(parsed_args.cpu_dedicated_set),
            pcpu.count_cpus(shared) if shared is not None else None,
            evidence,
        )
        asked = nova.reached(self, parsed_args)
        root = read.find_root(client, parsed_args.host)
        seen = read.trees(client, [root.uuid], reading)
        servers, moves = read.servers_of(asked, seen.holding(root.uuid, pcpu.VCPU))
        return pcpu.plan_pcpu(seen, root.uuid, servers, moves, request)


class WriteReplaceHostRecipe(Recipe):
    """Write the moves by which a renamed or rebuilt host takes over

    The new provider gets inventories, allocations, traits, aggregates and children of the
    old. Nova is asked first: its services on both hosts must be down and disabled, and the
    servers must be where the new provider is. Nothing is changed: the document goes to
    "placement reshape", when it has been read.
    """

    example = """\
openstack placement reshape recipe replace-host cn1 cn1 \\
    --uuid 0f8b1f2c-55c5-4c6f-8a8e-6b0a5f3b1d20 --out replace.yaml
openstack placement reshape recipe replace-host cn1 cn1.example.org"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("old", metavar="<old>", help="The provider that goes: name or UUID")
        parser.add_argument(
            "new",
            metavar="<new>",
            help="The name of the one that comes, as nova-compute calls its node; or its UUID"
            " where it is there",
        )
        parser.add_argument(
            "--uuid",
            metavar="<uuid>",
            help="The UUID of the one that comes, as /var/lib/nova/compute_id has it; where"
            " neither Placement nor nova knows it yet",
        )
        parser.add_argument(
            "--host",
            metavar="<host>",
            help="Nova's name of the host of the new one (default: what nova says, or the old's)",
        )
        nova.add_recording(parser)
        super().add_arguments(parser)

    def recipe(
        self, client: api.Client, parsed_args: argparse.Namespace, reading: context.ReadContext
    ) -> yaml_writer.Recipe:
        from osc_placement.workflows.reshape.recipe import read, replace_host

        uuid = parsed_args.uuid
        if uuid is not None and not names.is_uuid(uuid):
            self.usage_error(f"argument --uuid: {uuid!r} is no UUID")
        asked = nova.reached(self, parsed_args)
        request = _replacement(client, parsed_args)
        roots = {request.old.uuid}
        if request.new is not None:
            roots.add(request.new.root_uuid or request.new.uuid)
        seen = read.trees(client, roots, reading)
        told = read.told(asked, seen.consumers)
        if any(node.provider.parent_uuid == request.old.uuid for _, node in seen.inside()):
            client.require_feature("re-parenting", "taking children along")
        return replace_host.plan_replacement(seen, told, request)


def _replacement(client: api.Client, parsed_args: argparse.Namespace) -> replacement.Request:
    from osc_placement.workflows.reshape.recipe import read, replacement

    old = read.find_root(client, parsed_args.old)
    uuid = names.canonical_uuid(parsed_args.uuid) if parsed_args.uuid else None
    found = read.find(client, filter(None, (uuid, parsed_args.new)))
    new = found.get(uuid or "") or found.get(parsed_args.new)
    if new is not None and new.uuid == old.uuid:
        new = None
    given = names.is_uuid(parsed_args.new)
    name = new.name if new is not None and given else parsed_args.new
    return replacement.Request(old, name, new, uuid, parsed_args.host)


def _vgpu_request(parsed_args: argparse.Namespace) -> vgpu.Request:
    """Errors: InvalidInput with every fault."""
    from osc_placement.workflows.reshape.recipe import vgpu

    faults = errors.InputErrors()
    traits: dict[str, list[str]] = {}
    for device, trait in _pairs("--trait", parsed_args.trait, faults):
        traits.setdefault(vgpu.device_name(device), []).append(trait)
    devices = []
    for given, offered in _pairs("--device", parsed_args.device, faults):
        device = vgpu.device_name(given)
        resources = dict(_resources(offered, faults))
        devices.append(vgpu.Device(device, resources, tuple(traits.pop(device, ()))))
    for device in traits:
        faults.add(f"--trait {device}: there is no such --device")
    evidence = tuple(
        (server, vgpu.device_name(device)) for server, device in _evidence(parsed_args, faults)
    )
    faults.check()
    return vgpu.Request(tuple(devices), evidence)


def _add_evidence(parser: argparse.ArgumentParser, form: str, what: str) -> None:
    parser.add_argument(
        "--assign", metavar=form, action="append", default=[], help=f"{what}. May be repeated."
    )
    parser.add_argument(
        "--assign-from",
        metavar="<file>",
        type=pathlib.Path,
        help="A file with such lines",
    )


def _evidence(
    parsed_args: argparse.Namespace, faults: errors.InputErrors
) -> Iterator[tuple[str, str]]:
    """``(server's UUID, what it really uses)``, from the command line and the file."""
    for server, uses in _pairs("--assign", _lines(parsed_args), faults):
        if names.is_uuid(server):
            yield names.canonical_uuid(server), uses
        else:
            faults.add(f"--assign {server}: this is no UUID")


def _lines(parsed_args: argparse.Namespace) -> list[str]:
    if parsed_args.assign_from is None:
        return list(parsed_args.assign)
    path = parsed_args.assign_from
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.PlacementError(f"{path} cannot be read: {error}") from error
    return [*parsed_args.assign, *(line.strip() for line in lines if line.strip())]


def _pairs(
    option: str, texts: Iterable[str], faults: errors.InputErrors
) -> Iterator[tuple[str, str]]:
    for text in texts:
        one, equals, other = text.partition("=")
        if one and equals and other:
            yield one, other
        else:
            faults.add(f"{option} {text}: it must be of the form <one>=<other>")


def _resources(text: str, faults: errors.InputErrors) -> Iterator[tuple[str, int]]:
    """``4`` is ``VGPU:4``."""
    for part in text.split(","):
        resource_class, colon, amount = part.rpartition(":")
        if amount.isdecimal() and int(amount) and (resource_class or not colon):
            yield resource_class or "VGPU", int(amount)
        else:
            faults.add(f"--device: {part!r} is no amount, as 4 or SRIOV_NET_VF:2")


def _write(path: pathlib.Path, text: str) -> None:
    """Errors: PlacementError, also for a file that is there: it may have been edited."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise errors.PlacementError(f"{path} cannot be written: {error}") from error
