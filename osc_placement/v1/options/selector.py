"""SELECTOR: the arguments that select the providers of a batch operation."""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from osc_placement import errors
from osc_placement.v1.options import arguments

if TYPE_CHECKING:
    from osc_placement.workflows import selector


#: What a batch operation does with an empty selection, and a list.
REQUIRED = "An empty selection is an error."
OPTIONAL = "Without options all providers match."


def add_selector(parser: argparse.ArgumentParser, empty: str = REQUIRED) -> None:
    """Add the arguments of SELECTOR; ``empty`` describes an empty selection."""
    group = parser.add_argument_group(
        "which providers", f"A provider must match every option that is given. {empty}"
    )
    group.add_argument(
        "providers", metavar="<provider>", nargs="*", help="Name or UUID of a resource provider"
    )
    group.add_argument(
        "--providers-from",
        metavar="<file>",
        help="File with more provider names or UUIDs, one per line; - is standard input",
    )
    _add_conditions(group)
    group.add_argument(
        "--unused",
        action="store_true",
        help="Providers from which nothing is allocated. One request for each provider that"
        " matches the other options.",
    )
    group.add_argument(
        "--all", dest="everything", action="store_true", help="Every provider of the cloud"
    )


def _add_conditions(group: argparse._ArgumentGroup) -> None:
    """The options that compare properties of a provider."""
    group.add_argument(
        "--member-of",
        metavar="<aggregate>",
        action="append",
        default=[],
        help="Members of this aggregate: a UUID, or the name or id of a nova host aggregate."
        " Several separated by commas: members of at least one. With '!' before it: not a"
        " member. May be repeated; all conditions must hold.",
    )
    group.add_argument(
        "--not-member-of",
        metavar="<aggregate>",
        action="append",
        default=[],
        help="Providers that are not a member of this aggregate. May be repeated.",
    )
    group.add_argument("--in-tree", metavar="<provider>", help="Providers in this provider's tree")
    arguments.add_traits(group, "the provider", "provider required traits")
    group.add_argument(
        "--name-glob",
        metavar="<pattern>",
        action="append",
        default=[],
        help="Providers with a name that matches this pattern, as in ``rack1-*``. May be"
        " repeated; one pattern must match.",
    )


def read_selector(parsed_args: argparse.Namespace) -> selector.Selector:
    """The selection of a command line. Raises PlacementError for an unreadable file."""
    from osc_placement.workflows import selector

    return selector.Selector(
        providers=(*parsed_args.providers, *_from_file(parsed_args.providers_from)),
        member_of=tuple(arguments.member_of(parsed_args.member_of, parsed_args.not_member_of)),
        in_tree=parsed_args.in_tree,
        required=tuple(arguments.required(parsed_args.required)),
        forbidden=tuple(parsed_args.forbidden),
        name_globs=tuple(parsed_args.name_glob),
        everything=parsed_args.everything,
        unused=parsed_args.unused,
    )


def features(parsed_args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """``(feature, option)`` that the selection requires."""
    if parsed_args.in_tree:
        yield "nested providers", "--in-tree"
    yield from arguments.trait_features(
        parsed_args.required, parsed_args.forbidden, "provider required traits"
    )
    yield from arguments.aggregate_features(
        parsed_args.member_of, parsed_args.not_member_of, "provider member_of"
    )


def _from_file(path: str | None) -> tuple[str, ...]:
    from osc_placement.workflows import selector

    if path is None:
        return ()
    try:
        text = sys.stdin.read() if path == "-" else pathlib.Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise errors.PlacementError(
            f"--providers-from {path} cannot be read: {errors.file_reason(error)}"
        ) from error
    found = selector.provider_lines(text.splitlines())
    if not found:
        where = "standard input" if path == "-" else path
        raise errors.PlacementError(f"--providers-from: {where} contains no provider")
    return found
