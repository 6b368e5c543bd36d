"""SELECTOR: the arguments by which a batch says which providers it is about."""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from osc_placement import errors
from osc_placement.v1 import arguments

if TYPE_CHECKING:
    from osc_placement.workflows import selector


def add_selector(parser: argparse.ArgumentParser) -> None:
    """Declare SELECTOR; what is given narrows each other."""
    group = parser.add_argument_group(
        "which providers", "Several of these narrow each other; an empty selection is an error."
    )
    group.add_argument(
        "providers", metavar="<provider>", nargs="*", help="Name or UUID of a resource provider"
    )
    group.add_argument(
        "--providers-from",
        metavar="<file>",
        help="Also the providers that this file names, one to a line; - is standard input",
    )
    group.add_argument(
        "--member-of",
        metavar="<aggregate>",
        action="append",
        default=[],
        help="In this aggregate: a UUID, or the name or id of a nova host aggregate; several"
        " separated by commas: in at least one of them. A '!' before it forbids. May be"
        " repeated, and then all must hold.",
    )
    group.add_argument(
        "--not-member-of",
        metavar="<aggregate>",
        action="append",
        default=[],
        help="Not in this aggregate. May be repeated.",
    )
    group.add_argument("--in-tree", metavar="<provider>", help="In the tree of this provider")
    arguments.add_traits(group, "the provider", "provider required traits")
    group.add_argument(
        "--name-glob",
        metavar="<pattern>",
        action="append",
        default=[],
        help="With a name like this, as in ``rack1-*``. May be repeated: one must fit.",
    )
    group.add_argument(
        "--all", dest="everything", action="store_true", help="Every provider of the cloud"
    )


def read_selector(parsed_args: argparse.Namespace) -> selector.Selector:
    """What the command line selects. Errors: PlacementError for an unreadable file."""
    from osc_placement.workflows import selector

    return selector.Selector(
        providers=(*parsed_args.providers, *_from_file(parsed_args.providers_from)),
        member_of=tuple(arguments.member_of(parsed_args.member_of, parsed_args.not_member_of)),
        in_tree=parsed_args.in_tree,
        required=tuple(arguments.required(parsed_args.required)),
        forbidden=tuple(parsed_args.forbidden),
        name_globs=tuple(parsed_args.name_glob),
        everything=parsed_args.everything,
    )


def features(parsed_args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """``(feature, option)`` for what is given of SELECTOR."""
    if parsed_args.in_tree:
        yield "nested providers", "--in-tree"
    yield from arguments.trait_features(
        parsed_args.required, parsed_args.forbidden, "provider required traits"
    )
    yield from arguments.aggregate_features(
        parsed_args.member_of, parsed_args.not_member_of, "provider member_of"
    )


def _from_file(path: str | None) -> tuple[str, ...]:
    if path is None:
        return ()
    if path == "-":
        return _named(sys.stdin.read(), "standard input")
    try:
        return _named(pathlib.Path(path).read_text(encoding="utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        raise errors.PlacementError(f"--providers-from {path} cannot be read: {error}") from error


def _named(text: str, where: str) -> tuple[str, ...]:
    from osc_placement.workflows import selector

    found = selector.provider_lines(text.splitlines())
    if not found:
        raise errors.PlacementError(f"--providers-from: {where} names no provider")
    return found
