# SPDX-License-Identifier: Apache-2.0
"""``allocation candidate list``, and the options that describe a query."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from osc_placement import errors, microversion
from osc_placement.client import lookup, query
from osc_placement.model import name
from osc_placement.v1.common import arguments, base, nova_request, services
from osc_placement.v1.output import help_text, rows

if TYPE_CHECKING:
    from osc_placement.client import api, responses
    from osc_placement.model import candidate
    from osc_placement.scheduling.request import NovaRequest
    from osc_placement.workflows.cloud.named_aggregates import NamedAggregates


COLUMNS = ("#", "allocation", "resource provider", "inventory used/capacity")


class ListAllocationCandidate(base.Lister):
    """List allocation candidates for a request for resources

    Rows with the same number form one candidate; "resource provider allocation set" claims
    it. Options after --group belong to that group, which a single provider must satisfy. The
    options before it can be satisfied by several providers of a tree. --query sends a query
    string from nova or a log; --flavor and --server send nova's request for a server. --long
    adds the names of the providers (one request each, or one listing for more than five), and
    which providers satisfy which group (1.34).
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
        add_options(parser)
        nova_request.add_options(parser, checks=False)
        arguments.add_repeated(
            parser,
            "--name-glob",
            "<pattern>",
            "Candidates with a host or sharing provider (a root) whose name matches this"
            " pattern, as in ``rack1-*``. May be repeated; one pattern must match. All"
            " candidates are read, and --limit counts those that match.",
        )
        arguments.add_flag(parser, "--long", "Also show root, parent and mappings of groups")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        from osc_placement.scheduling.server_hosts import ServerHosts
        from osc_placement.workflows.cloud import cases

        mapped = self.shows(parsed_args, "mappings")
        optional = ["candidate mappings"] if mapped else []
        limit = parsed_args.limit
        if parsed_args.name_glob:
            parsed_args.limit = None
        options = query_options(self, parsed_args)
        if options is None:
            server = nova_request.server_options(parsed_args)
            case = cases.read(nova_request.opened(self), server, ServerHosts())
            latest, *others = case.requests
            # ``--limit`` instead of nova's limit.
            request: candidate.CandidateQuery | query.Pairs = dataclasses.replace(
                latest.query, limit=parsed_args.limit
            )
            client = connected(self, [latest.query], optional)
            for note in _notes(latest, others):
                self.write_note(note)
        else:
            client, request = of_options(self, options, optional)
            if parsed_args.name_glob and isinstance(request, list):
                request, limit = _without_limit(request)
        candidates = client.list_allocation_candidates(request)
        if parsed_args.name_glob:
            candidates = _on_named_roots(client, candidates, parsed_args.name_glob, limit)
        columns, data = _answer(
            candidates, client.microversion, long=parsed_args.long, mapped=mapped
        )
        if not self.shows(parsed_args, "provider_name"):
            return columns, data
        at = COLUMNS.index("resource provider")
        names = lookup.provider_names(client, [row[at] for row in data])
        return (*columns, "provider_name"), [(*row, names.get(row[at])) for row in data]


def _notes(latest: NovaRequest, others: Iterable[NovaRequest]) -> list[str]:
    return [
        *services.caveat_lines(latest.caveats),
        *(["Note: nova also asks with VCPU in place of PCPU"] if latest.second else []),
        *(f"The request of {single.title} differs: add {_option(single)}" for single in others),
    ]


def _option(single: NovaRequest) -> str:
    return "--filter owner" if single.condition else f"--nova-release {single.releases[-1]}"


def _without_limit(pairs: query.Pairs) -> tuple[query.Pairs, int | None]:
    """A query without its limits, and the first of them; the server refuses what is no number."""
    limits = [pair for pair in pairs if pair[0] == "limit" and pair[1].isdecimal()]
    others = [pair for pair in pairs if pair not in limits]
    return others, int(limits[0][1]) if limits else None


def _on_named_roots(
    client: api.Client, candidates: responses.Candidates, globs: Sequence[str], limit: int | None
) -> responses.Candidates:
    """The candidates with a root provider whose name matches; at most ``limit``.

    Requests: those of ``lookup.provider_names`` for the roots.
    """
    root_of = {uuid: summary.root_uuid or uuid for uuid, summary in candidates.summaries.items()}
    names = lookup.provider_names(client, dict.fromkeys(root_of.values()))
    matching = {uuid for uuid, text in names.items() if name.matches_glob(text, globs)}
    requests = (
        request
        for request in candidates.requests
        if any(root_of[uuid] in matching for uuid in request.allocations)
    )
    return candidates._replace(requests=tuple(itertools.islice(requests, limit)))


def _answer(
    candidates: responses.Candidates,
    version: microversion.Microversion,
    *,
    long: bool,
    mapped: bool,
) -> base.Rows:
    columns = COLUMNS
    extra: list[str] = []
    if microversion.supports(version, "candidate required traits"):
        extra.append("traits")
    if long and microversion.supports(version, "nested candidates"):
        extra += ["root_provider_uuid", "parent_provider_uuid"]
    if mapped and microversion.supports(version, "candidate mappings"):
        extra.append("mappings")
    data = [
        (number, *_row(uuid, resources, candidates.summaries, request.mappings, extra))
        for number, request in enumerate(candidates.requests, start=1)
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
        "mappings": rows.mappings(mappings or {}),
    }
    used = {name: f"{amount.used}/{amount.capacity}" for name, amount in summary.resources.items()}
    return (_pairs(resources), uuid, _pairs(used), *(values[name] for name in extra))


def _pairs(values: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in values.items())


def add_query(parser: argparse.ArgumentParser) -> None:
    """Add the options of a query as a shared group, without ``--limit``."""
    group = parser.add_argument_group(help_text.QUERY)
    add_options(group, limit=False)


def add_options(parser: argparse._ActionsContainer, *, limit: bool = True) -> None:
    """Add the options of ``allocation candidate list``; ``limit``: with ``--limit``."""
    parser.set_defaults(groups=None, limit=None)
    _add_grouped(parser)
    _add(
        parser,
        "--group",
        "<group>",
        "Start a group: a single provider must satisfy the options after it. The suffix"
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
        arguments.add_count(
            parser,
            "--limit",
            "Show at most this many candidates." + arguments.since("candidate limit"),
            "<limit>",
        )
    _add_tree_rules(parser)
    parser.add_argument(
        "--query", metavar="<query>", help="A complete query string, instead of the options above"
    )


class CandidateOptions(NamedTuple):
    """The options of a query, as they were given: nothing of them is looked up yet.

    ``text`` is a complete query, in place of the others; ``others`` are the options that describe
    a server instead.
    """

    groups: Sequence[arguments.GroupArguments]
    limit: int | None
    policy: str | None
    root_required: Sequence[str]
    same_subtree: Sequence[str]
    text: str | None = None
    others: str | None = None

    def features(self) -> Iterator[tuple[str, str]]:
        """``(feature, option)`` for the options that were given, apart from ``text``."""
        for group in self.groups:
            yield from arguments.group_features(group)
        options = {
            "--limit": (self.limit, "candidate limit"),
            "--group-policy": (self.policy, "granular groups"),
            "--root-required": (self.root_required, "candidate root_required"),
            "--same-subtree": (self.same_subtree, "candidate same_subtree"),
        }
        for option, (value, feature) in options.items():
            if value:
                yield feature, option
        if any(not group.resource for group in self.groups[1:]):
            yield "candidate same_subtree", "--group without --resource"


def given(parsed_args: argparse.Namespace) -> CandidateOptions:
    """The options of a query."""
    return CandidateOptions(
        arguments.groups(parsed_args),
        parsed_args.limit,
        parsed_args.group_policy,
        parsed_args.root_required,
        parsed_args.same_subtree,
        parsed_args.query,
        parsed_args.request_options,
    )


def query_options(
    command: base.PlacementCommand, parsed_args: argparse.Namespace
) -> CandidateOptions | None:
    """The options of a query; None if the options describe a server. Warns of old options.

    Exits with a usage error for options that exclude each other.
    Errors: PlacementError for a ``--query`` without parameters.
    """
    found = given(parsed_args)
    options = {option for _, option in found.features()}
    options |= {"--resource" for group in found.groups if group.resource}
    has_servers = bool(vars(parsed_args).get("keep"))
    nova_request.check(command, parsed_args, has_servers=has_servers)
    if found.text is None:
        if any(group.aggregate_uuid for group in found.groups):
            command.deprecated_option_warning("--aggregate-uuid", "--member-of")
    elif options:
        command.usage_error("argument --query: not allowed with other options of the query")
    elif not any(value for _, value in query.parse(found.text)):
        raise errors.PlacementError(f"--query {found.text!r} contains no name=value")
    if not nova_request.is_given(parsed_args):
        return found
    if found.text or options - {"--limit"}:
        command.usage_error(f"argument {found.others}: not allowed with options of a query")
    return None


def connected(
    command: base.PlacementCommand,
    queries: Iterable[candidate.CandidateQuery],
    optional: Iterable[str] = (),
) -> api.Client:
    """A client with the features that these queries need."""
    pairs = [pair for single in queries for pair in query.candidate_pairs(single)]
    return command.connect(query.candidate_features(pairs).items(), optional)


def of_options(
    command: base.PlacementCommand, options: CandidateOptions, optional: Iterable[str] = ()
) -> tuple[api.Client, candidate.CandidateQuery | query.Pairs]:
    """The query of the options, or the parameters of ``--query``; and a client with its features.

    Requests and errors: those of ``read``.
    """
    if options.text is None:
        client = command.connect(list(options.features()), optional)
        return client, read(client, options, services.named_aggregates(command))
    pairs = query.parse(options.text)
    return command.connect(query.candidate_features(pairs).items(), optional), pairs


def _add_tree_rules(parser: argparse._ActionsContainer) -> None:
    """Add the options about a candidate's tree."""
    arguments.add_repeated(
        parser,
        "--root-required",
        "<trait>",
        "A trait that the root of the tree must have; with '!' before it, must not have."
        " May be repeated." + arguments.since("candidate root_required"),
    )
    arguments.add_repeated(
        parser,
        "--same-subtree",
        "<group>,<group>",
        "Groups whose providers must be in the subtree of one of them. May be repeated."
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
        option, metavar=metavar, action=arguments.InGroup, default=argparse.SUPPRESS, help=text
    )


def read(
    client: api.Client, options: CandidateOptions, names: NamedAggregates | None
) -> candidate.CandidateQuery:
    """The query of the options other than ``--query``.

    Requests: those of ``lookup.provider_uuids`` for ``--in-tree``, and those of
    ``selected_uuids`` for the name of a host aggregate. Errors: InvalidInput.
    """
    from osc_placement.model import candidate

    groups = options.groups
    problems = errors.InputErrors()
    if not any(group.resource for group in groups):
        instead = f" Or give {options.others}." if options.others else ""
        problems.add(f"At least one --resource must be specified.{instead}")
    uuids: dict[str, str] = {}
    parsed = [arguments.read_group(group, problems) for group in groups]
    with problems.collected():
        texts = [text for group in groups for text in group.in_tree]
        uuids = lookup.provider_uuids(client, texts)
    named = [name for group in parsed for several in _aggregates(group) for name in several]
    if named:
        from osc_placement.workflows.cloud import named_aggregates

        with problems.collected():
            uuids |= named_aggregates.selected_uuids(client, named, names)
    problems.check()
    parsed = [_with_uuids(group, uuids) for group in parsed]
    parsed = [group for group in parsed if group != candidate.RequestGroup()]
    root = options.root_required
    return candidate.CandidateQuery(
        groups=tuple(parsed),
        isolate=options.policy == "isolate",
        same_subtree=tuple(frozenset(value.split(",")) for value in options.same_subtree),
        root_required=frozenset(trait for trait in root if not trait.startswith("!")),
        root_forbidden=frozenset(trait[1:] for trait in root if trait.startswith("!")),
        limit=options.limit,
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
