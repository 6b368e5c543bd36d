"""The base of ``placement reshape recipe``, and the options that several recipes have."""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from osc_placement import errors, microversion
from osc_placement.model import name as names
from osc_placement.v1 import base
from osc_placement.v1.options import arguments

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.workflows.context import ReadContext
    from osc_placement.workflows.reshape.recipe import evidence, recipe


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
        from osc_placement.workflows.reshape.recipe import recipe

        client = self.connect()
        text = recipe.write(self.recipe(client, parsed_args, ReadContext()))
        if parsed_args.out is None:
            sys.stdout.write(text)
        else:
            _write(parsed_args.out, text)

    def recipe(
        self, client: api.Client, parsed_args: argparse.Namespace, context: ReadContext
    ) -> recipe.Recipe:
        """Read the cloud and plan the moves."""
        raise NotImplementedError


def add_host(parser: argparse.ArgumentParser) -> None:
    """The option for the compute node."""
    parser.add_argument("host", metavar="<provider>", help="Name or UUID of the compute node")


def add_evidence(parser: argparse.ArgumentParser, form: str, what: str, output: str) -> None:
    """The options for what servers use."""
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


def add_traits(parser: argparse.ArgumentParser, form: str, what: str) -> None:
    """The option for the traits of new providers."""
    parser.add_argument(
        "--trait",
        metavar=f"{form}=<trait>",
        action="append",
        default=[],
        help=f"A trait of this {what}'s provider. May be repeated.",
    )


def devices(
    parsed_args: argparse.Namespace,
    name: Callable[[str], str],
    problems: errors.InputErrors,
    default: str = "",
) -> Iterator[tuple[str, dict[str, int], tuple[str, ...]]]:
    """``(name, resources, traits)`` of each device; ``name`` returns its canonical form."""
    traits: dict[str, list[str]] = {}
    for device, trait in pairs("--trait", parsed_args.trait, problems):
        traits.setdefault(name(device), []).append(trait)
    for given, offered in pairs("--device", parsed_args.device, problems):
        device = name(given)
        found = resources("--device", offered, problems, default)
        yield device, found, tuple(traits.pop(device, ()))
    for device in traits:
        problems.add(f"--trait {device}: no --device has this name")


def read_evidence(
    parsed_args: argparse.Namespace, reader: evidence.Reader, problems: errors.InputErrors
) -> Iterator[tuple[str, str]]:
    """``(server uuid, what it uses)`` from the command line and the files."""
    from osc_placement.workflows.reshape.recipe import evidence

    for server, uses in pairs("--assign", parsed_args.assign, problems):
        if names.is_uuid(server):
            yield names.canonical_uuid(server), uses
        else:
            problems.add(f"--assign {server}: not a UUID")
    files = ((str(path), arguments.read_file(path)) for path in parsed_args.assign_from)
    yield from evidence.read(files, reader, problems)


def pairs(
    option: str, texts: Iterable[str], problems: errors.InputErrors
) -> Iterator[tuple[str, str]]:
    """``(name, value)`` of each text ``<name>=<value>``."""
    for text in texts:
        one, equals, other = text.partition("=")
        if one and equals and other:
            yield one, other
        else:
            problems.add(f"{option} {text}: must be of the form <name>=<value>")


def resources(
    option: str, text: str, problems: errors.InputErrors, default: str = ""
) -> dict[str, int]:
    """``{resource class: amount}``; ``4`` is 4 of the default class, if there is one."""
    example = "4 or SRIOV_NET_VF:2" if default else "PCPU:16"
    found: dict[str, int] = {}
    for part in text.split(","):
        given, colon, amount = part.rpartition(":")
        resource_class = given if colon else default
        if resource_class in found:
            problems.add(f"{option} {text}: {resource_class} is given more than once")
        elif amount.isdecimal() and int(amount) and resource_class:
            found[resource_class] = int(amount)
        else:
            problems.add(f"{option}: {part!r} is not an amount, such as {example}")
    return found


def _write(path: pathlib.Path, text: str) -> None:
    """Raises PlacementError, also for an existing file, which the operator may have edited."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise errors.PlacementError(
            f"{path} cannot be written: {error.strerror}. Give another file, or delete this one"
        ) from error
