# SPDX-License-Identifier: Apache-2.0
"""Query strings of provider listings and allocation candidates, and the features they need."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from osc_placement import errors

if TYPE_CHECKING:
    from osc_placement.model import candidate

Pairs = list[tuple[str, str]]


def encode(pairs: Iterable[tuple[str, str]]) -> str:
    """``"?name=value&..."``; empty without parameters."""
    text = urllib.parse.urlencode(list(pairs), quote_via=urllib.parse.quote, safe=":,!")
    return f"?{text}" if text else ""


def quote(segment: str) -> str:
    """One path segment, percent-encoded.

    Raises InvalidInput for ``.`` and ``..``: HTTP clients resolve them, so that
    ``DELETE .../inventories/..`` would delete the provider.
    """
    if segment in {".", ".."}:
        raise errors.InvalidInput([f"{segment!r} cannot be used as a name"])
    return urllib.parse.quote(segment, safe="")


def resources_value(resources: Mapping[str, int]) -> str:
    """``"VCPU:1,MEMORY_MB:512"``."""
    return ",".join(f"{name}:{amount}" for name, amount in resources.items())


def required_values(required: Iterable[str]) -> list[str]:
    """Values of ``required``: one for all plain and forbidden traits, one per ``in:``."""
    plain = [item for item in required if not item.startswith("in:")]
    return ([",".join(plain)] if plain else []) + [
        item for item in required if item.startswith("in:")
    ]


def required_features(required: Iterable[str]) -> Iterator[str]:
    """The features that these trait expressions need beyond ``required`` itself."""
    for item in required:
        if item.startswith("in:"):
            yield "any traits"
        elif item.startswith("!"):
            yield "forbidden traits"


def member_of_features(member_of: Iterable[str]) -> Iterator[str]:
    """The features that these aggregate expressions need beyond ``member_of`` itself."""
    values = list(member_of)
    if any(value.startswith("!") for value in values):
        yield "forbidden aggregates"
    if len(values) > 1:
        yield "member_of repeated"


def candidate_pairs(query: candidate.CandidateQuery) -> Pairs:
    """The parameters of GET /allocation_candidates, in the order of the groups."""
    pairs = [pair for group in query.groups for pair in _group_pairs(group)]
    if query.isolate:
        pairs.append(("group_policy", "isolate"))
    elif sum(1 for group in query.groups if group.suffix) > 1:
        pairs.append(("group_policy", "none"))
    pairs.extend(("same_subtree", ",".join(sorted(suffixes))) for suffixes in query.same_subtree)
    root = sorted(query.root_required) + [f"!{trait}" for trait in sorted(query.root_forbidden)]
    if root:
        pairs.append(("root_required", ",".join(root)))
    if query.limit is not None:
        pairs.append(("limit", str(query.limit)))
    return pairs


def _group_pairs(group: candidate.RequestGroup) -> Pairs:
    pairs: Pairs = []
    if group.resources:
        pairs.append((f"resources{group.suffix}", resources_value(group.resources)))
    for value in required_values(_trait_expressions(group)):
        pairs.append((f"required{group.suffix}", value))
    for value in _aggregate_expressions(group):
        pairs.append((f"member_of{group.suffix}", value))
    if group.in_tree:
        pairs.append((f"in_tree{group.suffix}", group.in_tree))
    return pairs


def _trait_expressions(group: candidate.RequestGroup) -> list[str]:
    plain = [next(iter(names)) for names in group.required if len(names) == 1]
    forbidden = [f"!{name}" for name in sorted(group.forbidden)]
    alternatives = [f"in:{','.join(sorted(names))}" for names in group.required if len(names) != 1]
    return plain + forbidden + alternatives


def _aggregate_expressions(group: candidate.RequestGroup) -> list[str]:
    expressions = [_any_of(uuids) for uuids in group.member_of]
    if group.forbidden_aggregates:
        expressions.append(f"!{_any_of(group.forbidden_aggregates)}")
    return expressions


def _any_of(uuids: Iterable[str]) -> str:
    names = sorted(uuids)
    return names[0] if len(names) == 1 else f"in:{','.join(names)}"


def candidate_features(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """``{feature: the parameter that needs it}`` of a candidates query.

    Unknown parameters are ignored here; the server refuses them.
    """
    needed = {"allocation candidates": "allocation_candidates"}
    previous: set[str] = set()
    for name, value in pairs:
        for feature in _parameter_features(name, value, repeated=name in previous):
            needed.setdefault(feature, name)
        previous.add(name)
    return needed


_WHOLE = {
    "limit": "candidate limit",
    "group_policy": "granular groups",
    "root_required": "candidate root_required",
    "same_subtree": "candidate same_subtree",
}
_GROUPED = {
    "resources": None,
    "required": "candidate required traits",
    "member_of": "candidate member_of",
    "in_tree": "candidate in_tree",
}


def _parameter_features(name: str, value: str, *, repeated: bool) -> Iterator[str]:
    if name in _WHOLE:
        yield _WHOLE[name]
        return
    kind = next((kind for kind in _GROUPED if name.startswith(kind)), None)
    if kind is None:
        return
    yield from _suffix_features(name.removeprefix(kind))
    if (feature := _GROUPED[kind]) is not None:
        yield feature
    if kind == "required":
        yield from required_features(value.split(",") if not value.startswith("in:") else [value])
        if repeated:
            yield "any traits"
    elif kind == "member_of":
        yield from member_of_features([value, value] if repeated else [value])


def _suffix_features(suffix: str) -> Iterator[str]:
    if suffix.isdecimal():
        yield "granular groups"
    elif suffix:
        yield "string suffixes"


def parse(text: str) -> Pairs:
    """The parameters of a query string from a log, with or without method, path and quotes."""
    query = text.strip().strip("\"'").partition("HTTP/")[0].strip()
    query = query.rpartition("?")[2].rpartition(" ")[2]
    return urllib.parse.parse_qsl(query, keep_blank_values=True)


def read_candidates(pairs: Pairs) -> candidate.CandidateQuery:
    """The query of these parameters, the inverse of ``candidate_pairs``.

    Of equal parameters with one value the last counts, as in Placement; of "limit" and
    "group_policy" the first.
    Errors: InvalidInput names every parameter that cannot be read. Names and amounts are not
    checked: the server refuses them.
    """
    from osc_placement.model import candidate

    problems = errors.InputErrors()
    groups: dict[str, dict[str, list[str]]] = {}
    whole: dict[str, list[str]] = {}
    for name, value in pairs:
        kind = next((kind for kind in _GROUPED if name.startswith(kind)), None)
        if name in _WHOLE:
            whole.setdefault(name, []).append(value)
        elif kind is None:
            problems.add(f"unknown parameter {name!r} in the query")
        else:
            group = groups.setdefault(name.removeprefix(kind), {})
            group.setdefault(kind, []).append(value)
    read = tuple(_read_group(suffix, values, problems) for suffix, values in groups.items())
    limit = whole.get("limit", [None])[0]
    if limit is not None and not (limit.isdecimal() and int(limit)):
        problems.add(f"limit={limit} in the query is not a number from 1 on")
    problems.check()
    required, forbidden = signed(whole.get("root_required", [])[-1:])
    return candidate.CandidateQuery(
        read,
        isolate=whole.get("group_policy", [""])[0] == "isolate",
        same_subtree=tuple(frozenset(value.split(",")) for value in whole.get("same_subtree", [])),
        root_required=frozenset(name for names in required for name in names),
        root_forbidden=forbidden,
        limit=None if limit is None else int(limit),
    )


def _read_group(
    suffix: str, values: Mapping[str, list[str]], problems: errors.InputErrors
) -> candidate.RequestGroup:
    from osc_placement.model import candidate

    required, forbidden = signed(values.get("required", []))
    member_of, not_member_of = signed(values.get("member_of", []))
    return candidate.RequestGroup(
        suffix,
        _read_resources(f"resources{suffix}", values.get("resources", []), problems),
        required=required,
        forbidden=forbidden,
        member_of=member_of,
        forbidden_aggregates=not_member_of,
        in_tree=values.get("in_tree", [None])[-1],
    )


def _read_resources(
    parameter: str, values: Sequence[str], problems: errors.InputErrors
) -> dict[str, int]:
    amounts = {}
    for item in values[-1].split(",") if values else ():
        name, _, amount = item.partition(":")
        if name and amount.isdecimal() and int(amount):
            amounts[name] = int(amount)
        else:
            problems.add(f"{parameter}: {item!r} in the query is not CLASS:amount")
    return amounts


def signed(values: Iterable[str]) -> tuple[tuple[frozenset[str], ...], frozenset[str]]:
    """The required sets of alternatives, and the forbidden names, of ``A,!B`` and ``in:A,B``."""
    required: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for value in values:
        plain = value.removeprefix("!")
        if plain.startswith("in:"):
            names = frozenset(plain.removeprefix("in:").split(","))
            if value.startswith("!"):
                forbidden |= names
            else:
                required.append(names)
            continue
        for name in value.split(","):
            if name.startswith("!"):
                forbidden.add(name[1:])
            else:
                required.append(frozenset({name}))
    return tuple(required), frozenset(forbidden)
