"""``allocation candidate list``."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from osc_placement import microversion
from osc_placement.client import lookup, query
from osc_placement.model import name
from osc_placement.v1 import base, services
from osc_placement.v1.candidates import candidate_query, nova_request
from osc_placement.v1.output import rows

if TYPE_CHECKING:
    from osc_placement.client import api, responses
    from osc_placement.model import candidate

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
        candidate_query.add_options(parser)
        nova_request.add_options(parser)
        parser.add_argument(
            "--name-glob",
            metavar="<pattern>",
            action="append",
            default=[],
            help="Candidates with a host or sharing provider (a root) whose name matches this"
            " pattern, as in ``rack1-*``. May be repeated; one pattern must match. All"
            " candidates are read, and --limit counts those that match.",
        )
        parser.add_argument(
            "--long", action="store_true", help="Also show root, parent and mappings of groups"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        mapped = self.shows(parsed_args, "mappings")
        optional = ["candidate mappings"] if mapped else []
        candidate_query.check(self, parsed_args)
        limit = parsed_args.limit
        if parsed_args.name_glob:
            parsed_args.limit = None
        nova_request.check(self, parsed_args)
        request: candidate.CandidateQuery | query.Pairs
        if nova_request.is_given(parsed_args):
            request, features = self._of_nova(parsed_args)
            client = self.connect(features, optional)
        else:
            client = self.connect(candidate_query.features(parsed_args), optional)
            request = candidate_query.request(client, parsed_args, services.host_aggregates(self))
        found = client.list_allocation_candidates(request)
        if parsed_args.name_glob:
            found = _on_named_roots(client, found, parsed_args.name_glob, limit)
        columns, data = _answer(found, client.microversion, long=parsed_args.long, mapped=mapped)
        if not self.shows(parsed_args, "provider_name"):
            return columns, data
        at = COLUMNS.index("resource provider")
        names = lookup.provider_names(client, [row[at] for row in data])
        return (*columns, "provider_name"), [(*row, names.get(row[at])) for row in data]

    def _of_nova(
        self, parsed_args: argparse.Namespace
    ) -> tuple[candidate.CandidateQuery, Iterable[tuple[str, str]]]:
        """Nova's request, and the features that it needs; ``--limit`` instead of nova's limit."""
        if candidate_query.has_options(parsed_args) or parsed_args.query:
            self.usage_error("arguments --flavor and --server: not allowed with options of a query")
        found, *others = nova_request.read(nova_request.opened(self, parsed_args), parsed_args)
        request = dataclasses.replace(found.query, limit=parsed_args.limit)
        pairs = query.candidate_pairs(request)
        self.summary = [
            *(f"Assumed: {text}" for text in found.assumptions),
            *(f"Not judged: {text}" for text in found.not_judged),
            *(
                f"The request of {single.title} differs: add --nova-release {single.releases[-1]}"
                for single in others
            ),
        ]
        return request, query.candidate_features(pairs).items()


def _on_named_roots(
    client: api.Client, found: responses.Candidates, globs: Sequence[str], limit: int | None
) -> responses.Candidates:
    """The candidates with a root provider whose name matches; at most ``limit``.

    Requests: those of ``lookup.provider_names`` for the roots.
    """
    root_of = {uuid: each.root_uuid or uuid for uuid, each in found.summaries.items()}
    names = lookup.provider_names(client, dict.fromkeys(root_of.values()))
    matching = {uuid for uuid, text in names.items() if name.matches_glob(text, globs)}
    requests = (
        request
        for request in found.requests
        if any(root_of[uuid] in matching for uuid in request.allocations)
    )
    return found._replace(requests=tuple(itertools.islice(requests, limit)))


def _answer(
    found: responses.Candidates, version: microversion.Microversion, *, long: bool, mapped: bool
) -> tuple[tuple[str, ...], list[Any]]:
    columns = COLUMNS
    extra: list[str] = []
    if microversion.supports(version, "candidate required traits"):
        extra.append("traits")
    if long and microversion.supports(version, "nested candidates"):
        extra += ["root_provider_uuid", "parent_provider_uuid"]
    if mapped and microversion.supports(version, "candidate mappings"):
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
