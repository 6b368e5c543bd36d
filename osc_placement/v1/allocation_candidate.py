"""``allocation candidate list``."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from osc_placement import errors, microversion
from osc_placement.client import lookup, query
from osc_placement.v1 import arguments, base, request_group, rows

if TYPE_CHECKING:
    from osc_placement.client import api, responses
    from osc_placement.model import candidate

COLUMNS = ("#", "allocation", "resource provider", "inventory used/capacity")


class ListAllocationCandidate(base.Lister):
    """List allocation candidates for a request for resources

    Rows with the same number form one candidate; "resource provider allocation set" claims
    it. Options after --group belong to that group, which a single provider must satisfy. The
    options before it can be satisfied by several providers of a tree. --query sends a query
    string from nova or a log. From Placement API 1.34, or with --long, the column mappings
    shows which providers satisfy which group.
    """

    writes = False
    required_feature = "allocation candidates"
    example = """\
openstack allocation candidate list --resource VCPU=1 \\
    --resource MEMORY_MB=512
openstack allocation candidate list --resource VCPU=1 \\
    --group _NET --resource SRIOV_NET_VF=1 --required CUSTOM_PHYSNET1
openstack allocation candidate list \\
    --query \\
    'resources=VCPU:1&root_required=!COMPUTE_STATUS_DISABLED&limit=10'"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
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
        parser.add_argument(
            "--long", action="store_true", help="Also show root, parent and mappings of groups"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        optional = ["candidate mappings"] if parsed_args.long else []
        if parsed_args.query is not None:
            pairs = self._whole_query(parsed_args)
            required = query.candidate_features(pairs)
            client = self.connect(required.items(), optional)
            found = client.list_allocation_candidates(pairs)
        else:
            client = self.connect(_features(parsed_args), optional)
            self._warn(parsed_args)
            found = client.list_allocation_candidates(_query(client, parsed_args))
        return _answer(found, client.microversion, long=parsed_args.long)

    def _whole_query(self, parsed_args: argparse.Namespace) -> query.Pairs:
        alone = argparse.Namespace(**{**vars(parsed_args), "query": None, "long": False})
        if list(_features(alone)) or any(
            group.resource for group in request_group.groups(parsed_args)
        ):
            self.usage_error("argument --query: not allowed with other options of the query")
        pairs = query.parse(parsed_args.query)
        if not any(value for _, value in pairs):
            raise errors.PlacementError(f"--query {parsed_args.query!r} contains no name=value")
        return pairs

    def _warn(self, parsed_args: argparse.Namespace) -> None:
        if any(group.aggregate_uuid for group in request_group.groups(parsed_args)):
            self.deprecated_option_warning("--aggregate-uuid", "--member-of")


def _add_tree_rules(parser: argparse.ArgumentParser) -> None:
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


def _add_grouped(parser: argparse.ArgumentParser) -> None:
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
        "--not-member-of": "UUID of an aggregate that a candidate must not be a member of."
        " Several separated by commas: a member of none. May be repeated."
        + arguments.since("forbidden aggregates"),
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
        "UUID of an aggregate that a candidate must be a member of. Several separated by"
        " commas: a member of at least one. May be repeated from Placement API 1.24; all"
        " conditions must hold." + arguments.since("candidate member_of"),
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


def _features(parsed_args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    for group in request_group.groups(parsed_args):
        yield from request_group.features(group)
    options = {
        "--limit": (parsed_args.limit, "candidate limit"),
        "--group-policy": (parsed_args.group_policy, "granular groups"),
        "--root-required": (parsed_args.root_required, "candidate root_required"),
        "--same-subtree": (parsed_args.same_subtree, "candidate same_subtree"),
    }
    for option, (value, feature) in options.items():
        if value:
            yield feature, option
    if any(not group.resource for group in request_group.groups(parsed_args)[1:]):
        yield "candidate same_subtree", "--group without --resource"


def _query(client: api.Client, parsed_args: argparse.Namespace) -> candidate.CandidateQuery:
    from osc_placement.model import candidate

    groups = request_group.groups(parsed_args)
    problems = errors.InputErrors()
    if not any(group.resource for group in groups):
        problems.add("At least one --resource must be specified.")
    uuids: dict[str, str] = {}
    parsed = [request_group.read(group, problems) for group in groups]
    with problems.collected():
        uuids = lookup.provider_uuids(client, request_group.provider_texts(groups))
    problems.check()
    parsed = [
        dataclasses.replace(group, in_tree=uuids[group.in_tree]) if group.in_tree else group
        for group in parsed
    ]
    root = parsed_args.root_required
    return candidate.CandidateQuery(
        groups=tuple(parsed),
        isolate=parsed_args.group_policy == "isolate",
        same_subtree=tuple(frozenset(value.split(",")) for value in parsed_args.same_subtree),
        root_required=frozenset(trait for trait in root if not trait.startswith("!")),
        root_forbidden=frozenset(trait[1:] for trait in root if trait.startswith("!")),
        limit=parsed_args.limit,
    )


def _answer(
    found: responses.Candidates, version: microversion.Microversion, *, long: bool
) -> tuple[tuple[str, ...], list[Any]]:
    columns = COLUMNS
    extra: list[str] = []
    if microversion.supports(version, "candidate required traits"):
        extra.append("traits")
    if long and microversion.supports(version, "nested candidates"):
        extra += ["root_provider_uuid", "parent_provider_uuid"]
    if microversion.supports(version, "candidate mappings"):
        extra.append("mappings")
    data = [
        (number, *_row(uuid, resources, found.summaries, request.mappings, extra))
        for number, request in enumerate(found.requests, start=1)
        for uuid, resources in request.allocations.items()
    ]
    return (*columns, *extra), data


def _row(
    uuid: str,
    resources: Mapping[str, int],
    summaries: Mapping[str, responses.ProviderSummary],
    mappings: Mapping[str, Iterable[str]] | None,
    extra: Iterable[str],
) -> rows.Row:
    summary = summaries[uuid]
    values = {
        "traits": ",".join(summary.traits or ()),
        "root_provider_uuid": summary.root_uuid,
        "parent_provider_uuid": summary.parent_uuid,
        "mappings": rows.Mappings({k: list(v) for k, v in (mappings or {}).items()}),
    }
    used = {name: f"{amount.used}/{amount.capacity}" for name, amount in summary.resources.items()}
    return (_pairs(resources), uuid, _pairs(used), *(values[name] for name in extra))


def _pairs(values: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in values.items())
