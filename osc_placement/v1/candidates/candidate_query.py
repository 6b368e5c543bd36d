"""The options that say what an allocation candidates query requests."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from osc_placement import errors
from osc_placement.client import lookup, query
from osc_placement.v1 import base
from osc_placement.v1.options import arguments, request_group

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.model import candidate
    from osc_placement.workflows.context import HostAggregates


def add_options(parser: argparse._ActionsContainer, *, limit: bool = True) -> None:
    """Add the options of ``allocation candidate list``; ``limit``: with ``--limit``."""
    _add_grouped(parser)
    parser.add_argument(
        "--group",
        metavar="<group>",
        action=request_group.Group,
        default=argparse.SUPPRESS,
        help="Start a group: a single provider must satisfy the options after it. The suffix"
        " is a number (Placement API 1.25), or letters, digits, '-' and '_' (1.33). From"
        " 1.36 a group can have no resources.",
    )
    parser.add_argument(
        "--group-policy",
        metavar="<group_policy>",
        choices=["none", "isolate"],
        default=None,
        help="Whether groups can share a provider (none, the default) or not (isolate)."
        + arguments.since("granular groups"),
    )
    if limit:
        parser.add_argument(
            "--limit",
            metavar="<limit>",
            type=arguments.positive,
            help="Show at most this many candidates." + arguments.since("candidate limit"),
        )
    _add_tree_rules(parser)
    parser.add_argument(
        "--query",
        metavar="<query>",
        help="A complete query string, instead of the options above",
    )


def check(command: base.PlacementCommand, parsed_args: argparse.Namespace) -> None:
    """Exit with a usage error for ``--query`` with other options, and warn of old options.

    Errors: PlacementError for a ``--query`` without parameters.
    """
    if parsed_args.query is None:
        if any(group.aggregate_uuid for group in request_group.groups(parsed_args)):
            command.deprecated_option_warning("--aggregate-uuid", "--member-of")
    elif has_options(parsed_args):
        command.usage_error("argument --query: not allowed with other options of the query")
    elif not any(value for _, value in query.parse(parsed_args.query)):
        raise errors.PlacementError(f"--query {parsed_args.query!r} contains no name=value")


def has_options(parsed_args: argparse.Namespace) -> bool:
    """Whether any option besides ``--query`` is given."""
    groups = request_group.groups(parsed_args)
    return any(_option_features(parsed_args)) or any(group.resource for group in groups)


def features(parsed_args: argparse.Namespace) -> list[tuple[str, str]]:
    """``(feature, option)`` that the query requires."""
    if parsed_args.query is None:
        return list(_option_features(parsed_args))
    return list(query.candidate_features(query.parse(parsed_args.query)).items())


def request(
    client: api.Client, parsed_args: argparse.Namespace, host_aggregates: HostAggregates | None
) -> candidate.CandidateQuery | query.Pairs:
    """The query of the options, or the parameters of ``--query`` as they are.

    Requests: those of ``lookup.provider_uuids`` for ``--in-tree``, and one to nova for the name
    of a host aggregate. Errors: InvalidInput.
    """
    if parsed_args.query is None:
        return _query(client, parsed_args, host_aggregates)
    return query.parse(parsed_args.query)


def read(
    client: api.Client, parsed_args: argparse.Namespace, host_aggregates: HostAggregates | None
) -> candidate.CandidateQuery:
    """The query of the options, or of ``--query``; otherwise like ``request``."""
    if parsed_args.query is None:
        return _query(client, parsed_args, host_aggregates)
    return query.read_candidates(query.parse(parsed_args.query))


def _add_tree_rules(parser: argparse._ActionsContainer) -> None:
    """Add the options about a candidate's tree."""
    parser.add_argument(
        "--root-required",
        metavar="<trait>",
        action="append",
        default=[],
        help="A trait that the root of the tree must have; with '!' before it, must not have."
        " May be repeated." + arguments.since("candidate root_required"),
    )
    parser.add_argument(
        "--same-subtree",
        metavar="<group>,<group>",
        action="append",
        default=[],
        help="Groups whose providers must be in the subtree of one of them. May be repeated."
        + arguments.since("candidate same_subtree"),
    )


def _add_grouped(parser: argparse._ActionsContainer) -> None:
    """Add the options that every group can have."""
    texts = {
        "--resource": "An amount of a resource class that a candidate must provide, as in VCPU=4."
        " May be repeated, once per class.",
        "--required": "A trait that a candidate must have. May be repeated. Several separated"
        " by commas: at least one of them, from Placement API 1.39."
        + arguments.since("candidate required traits"),
        "--forbidden": "A trait that a candidate must not have. May be repeated."
        + arguments.since("forbidden traits"),
        "--in-tree": "Only the tree of this provider (name or UUID)."
        + arguments.since("candidate in_tree"),
        "--not-member-of": "An aggregate that a candidate must not be a member of: a UUID, or the"
        " name or id of a nova host aggregate. Several separated by commas: a member of none. May"
        " be repeated." + arguments.since("forbidden aggregates"),
    }
    for option, text in texts.items():
        metavar = option.removeprefix("--").replace("-", "_")
        shape = "<resource_class>=<value>" if option == "--resource" else f"<{metavar}>"
        _add(parser, option, shape, text)
    group = parser.add_mutually_exclusive_group()
    _add(
        group,
        "--member-of",
        "<member_of>",
        "An aggregate that a candidate must be a member of: a UUID, or the name or id of a nova"
        " host aggregate. Several separated by commas: a member of at least one. May be repeated"
        " from Placement API 1.24; all conditions must hold."
        + arguments.since("candidate member_of"),
    )
    _add(group, "--aggregate-uuid", "<uuid>", argparse.SUPPRESS)


def _add(container: argparse._ActionsContainer, option: str, metavar: str, text: str) -> None:
    container.add_argument(
        option,
        metavar=metavar,
        action=request_group.InGroup,
        default=argparse.SUPPRESS,
        help=text,
    )


def _option_features(parsed_args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    for group in request_group.groups(parsed_args):
        yield from request_group.features(group)
    options = {
        "--limit": (getattr(parsed_args, "limit", None), "candidate limit"),
        "--group-policy": (parsed_args.group_policy, "granular groups"),
        "--root-required": (parsed_args.root_required, "candidate root_required"),
        "--same-subtree": (parsed_args.same_subtree, "candidate same_subtree"),
    }
    for option, (value, feature) in options.items():
        if value:
            yield feature, option
    if any(not group.resource for group in request_group.groups(parsed_args)[1:]):
        yield "candidate same_subtree", "--group without --resource"


def _query(
    client: api.Client, parsed_args: argparse.Namespace, host_aggregates: HostAggregates | None
) -> candidate.CandidateQuery:
    from osc_placement.model import candidate

    groups = request_group.groups(parsed_args)
    problems = errors.InputErrors()
    if not any(group.resource for group in groups):
        others = getattr(parsed_args, "request_options", "")
        instead = f" Or give {others}." if others else ""
        problems.add(f"At least one --resource must be specified.{instead}")
    uuids: dict[str, str] = {}
    parsed = [request_group.read(group, problems) for group in groups]
    with problems.collected():
        texts = request_group.provider_texts(groups)
        uuids = lookup.provider_uuids(client, texts, check=True)
    named = [name for group in parsed for names in _aggregates(group) for name in names]
    if named:
        from osc_placement.workflows import selector

        with problems.collected():
            uuids |= selector.aggregate_uuids(named, host_aggregates)
    problems.check()
    parsed = [_with_uuids(group, uuids) for group in parsed]
    parsed = [group for group in parsed if group != candidate.RequestGroup()]
    root = parsed_args.root_required
    return candidate.CandidateQuery(
        groups=tuple(parsed),
        isolate=parsed_args.group_policy == "isolate",
        same_subtree=tuple(frozenset(value.split(",")) for value in parsed_args.same_subtree),
        root_required=frozenset(trait for trait in root if not trait.startswith("!")),
        root_forbidden=frozenset(trait[1:] for trait in root if trait.startswith("!")),
        limit=getattr(parsed_args, "limit", None),
    )


def _aggregates(group: candidate.RequestGroup) -> list[frozenset[str]]:
    return [*group.member_of, group.forbidden_aggregates]


def _with_uuids(group: candidate.RequestGroup, uuids: Mapping[str, str]) -> candidate.RequestGroup:
    """The group with the UUIDs of its provider and aggregates."""
    return dataclasses.replace(
        group,
        in_tree=uuids[group.in_tree] if group.in_tree else None,
        member_of=tuple(frozenset(uuids[name] for name in names) for names in group.member_of),
        forbidden_aggregates=frozenset(uuids[name] for name in group.forbidden_aggregates),
    )
