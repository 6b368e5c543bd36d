# SPDX-License-Identifier: Apache-2.0
"""Parsing of query strings into request groups.

The error texts are interface; each contains the value as sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from osc_placement import microversion
from osc_placement.model import candidate
from osc_placement.model.name import is_uuid
from osc_placement.server import http_errors

_INVALID = http_errors.INVALID_QUERY
_PLAIN_FORM = "HW_CPU_X86_VMX,CUSTOM_MAGIC"
_FORBIDDEN_FORM = "HW_CPU_X86_VMX,!CUSTOM_MAGIC"
_ANY_FORM = "in:HW_CPU_X86_VMX,CUSTOM_MAGIC"
_GROUP_KEY = re.compile(r"(resources|required|member_of|in_tree)(.*)", re.DOTALL)


def parse_resources(text: str) -> dict[str, int]:
    """Parse ``VCPU:2,MEMORY_MB:1024`` to ``{class: amount}``; the last value of a class counts."""
    resources: dict[str, int] = {}
    if not text.strip():
        raise _bad_resources("empty string")
    for part in text.split(","):
        name, colon, amount = part.partition(":")
        if not colon or ":" in amount:
            raise _bad_resources(part)
        resources[name] = _amount(name, amount)
    return resources


def _bad_resources(got: str) -> http_errors.HttpBadRequest:
    return http_errors.HttpBadRequest(
        "Badly formed resources parameter. Expected resources query string parameter in form:"
        f" ?resources=VCPU:2,MEMORY_MB:1024. Got: {got}."
    )


def _amount(name: str, text: str) -> int:
    try:
        amount = int(text)
    except ValueError as error:
        raise http_errors.HttpBadRequest(
            f"Requested resource {name} expected positive integer amount. Got: {text}."
        ) from error
    if amount < 1:
        raise http_errors.HttpBadRequest(
            f"Requested resource {name} requires amount >= 1. Got: {amount}."
        )
    return amount


def parse_traits(
    values: Iterable[str], version: microversion.Microversion, may_be_any: bool = True
) -> tuple[tuple[frozenset[str], ...], frozenset[str]]:
    """``(required, forbidden)`` traits; a provider needs one trait of each required set."""
    required: list[frozenset[str]] = []
    forbidden: set[str] = set()
    any_traits = may_be_any and microversion.supports(version, "any traits")
    for value in values:
        if value.startswith("in:"):
            required.append(_alternatives(value, any_traits))
            continue
        for trait in _trait_list(value, microversion.supports(version, "forbidden traits")):
            if trait.startswith("!"):
                forbidden.add(trait[1:])
            else:
                required.append(frozenset({trait}))
    return tuple(dict.fromkeys(required)), frozenset(forbidden)


def _alternatives(value: str, supported: bool) -> frozenset[str]:
    if not supported:
        raise http_errors.HttpBadRequest(
            f"{_INVALID}The format '{_ANY_FORM}' only supported since microversion 1.39."
            f" Got: {value}"
        )
    traits = _stripped(value.removeprefix("in:"))
    if not all(traits):
        raise _empty_trait(_ANY_FORM, value)
    if any(trait.startswith("!") for trait in traits):
        raise http_errors.HttpBadRequest(
            f"{_INVALID}The format '{_ANY_FORM}' does not support forbidden traits. Got: {value}"
        )
    return frozenset(traits)


def _trait_list(value: str, may_forbid: bool) -> list[str]:
    form = _FORBIDDEN_FORM if may_forbid else _PLAIN_FORM
    traits = _stripped(value)
    if not all(trait not in ("", "!") for trait in traits):
        raise _empty_trait(form, value)
    if not may_forbid and any(trait.startswith("!") for trait in traits):
        raise http_errors.HttpBadRequest(
            f"{_INVALID}Expected 'required' parameter value of the form: {form}. Got: {value}"
        )
    return traits


def _stripped(value: str) -> list[str]:
    return [part.strip() for part in value.split(",")]


def _empty_trait(form: str, value: str) -> http_errors.HttpBadRequest:
    return http_errors.HttpBadRequest(
        f"{_INVALID}Expected 'required' parameter value of the form: {form}."
        f" Got an empty trait in: {value}"
    )


def parse_member_of(
    values: Sequence[str], version: microversion.Microversion, suffix: str = ""
) -> tuple[tuple[frozenset[str], ...], frozenset[str]]:
    """``(member_of, forbidden)`` of ``member_of`` values: member_of as sets of alternatives."""
    if len(values) > 1 and not microversion.supports(version, "member_of repeated"):
        raise http_errors.HttpBadRequest("Multiple member_of parameters are not supported")
    member_of: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for value in values:
        if value.startswith("!"):
            forbidden |= _aggregates(value, version, suffix)
        else:
            member_of.append(_aggregates(value, version, suffix))
    return tuple(member_of), frozenset(forbidden)


def _aggregates(text: str, version: microversion.Microversion, suffix: str) -> frozenset[str]:
    value = text.removeprefix("!")
    aggregates = value.removeprefix("in:").split(",")
    if len(aggregates) > 1 and not value.startswith("in:"):
        raise http_errors.HttpBadRequest(
            "Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' keyword"
            f" using the valid microversion. Got: {text}"
        )
    for aggregate in aggregates:
        if not is_uuid(aggregate):
            raise http_errors.HttpBadRequest(
                f"{_INVALID}Expected 'member_of' parameter to contain valid UUID(s)."
                f" Got: {aggregate}"
            )
    if value != text and not microversion.supports(version, "forbidden aggregates"):
        raise http_errors.HttpBadRequest(
            f"Forbidden member_of{suffix} parameters are not supported in the specified"
            " microversion"
        )
    return frozenset(aggregates)


def parse_in_tree(value: str) -> str:
    """The uuid of any provider of a tree."""
    value = value.strip()
    if not is_uuid(value):
        raise http_errors.HttpBadRequest(
            f"{_INVALID}Expected 'in_tree' parameter to be a format of uuid. Got: {value}"
        )
    return value


def parse_candidates(
    pairs: Sequence[tuple[str, str]], version: microversion.Microversion
) -> candidate.CandidateQuery:
    """An allocation candidates query from the pairs of its query string."""
    values: dict[str, list[str]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    required, forbidden = _root_traits(values, version)
    subtrees = _subtree_suffixes(values)
    groups = _groups(pairs, values, version)
    _check_groups(groups, subtrees, version)
    policy = values.get("group_policy", [None])[0]
    if policy is None and sum(1 for suffix in groups if suffix) > 1:
        raise http_errors.HttpBadRequest(
            'The "group_policy" parameter is required when specifying more than one'
            ' "resources{N}" parameter.'
        )
    return candidate.CandidateQuery(
        groups=tuple(groups.values()),
        isolate=policy == "isolate",
        same_subtree=subtrees,
        root_required=required,
        root_forbidden=forbidden,
        limit=_limit(values.get("limit", [""])[0]),
        nested=microversion.supports(version, "nested candidates"),
    )


def _limit(text: str) -> int | None:
    """The limit; the schema checks that it is a number, but not how long it is."""
    try:
        return int(text) if text else None
    except ValueError as error:
        raise http_errors.HttpBadRequest(f"{_INVALID}limit has too many digits") from error


def _groups(
    pairs: Sequence[tuple[str, str]],
    values: dict[str, list[str]],
    version: microversion.Microversion,
) -> dict[str, candidate.RequestGroup]:
    """``{suffix: group}``, in the order of the query string, which is that of the errors too."""
    fields: dict[str, dict[str, Any]] = {}
    for key, value in pairs:
        match = _GROUP_KEY.fullmatch(key)
        if not match:
            continue
        group = fields.setdefault(match[2], {})
        if match[1] == "resources":
            group["resources"] = parse_resources(value)
        elif match[1] == "in_tree":
            group["in_tree"] = parse_in_tree(value)
        elif match[1] not in group:
            group |= _repeatable_fields(match[1], values[key], version, match[2])
    return {suffix: candidate.RequestGroup(suffix, **group) for suffix, group in fields.items()}


def _repeatable_fields(
    parameter: str, values: list[str], version: microversion.Microversion, suffix: str
) -> dict[str, Any]:
    """The fields of a group from all values of ``member_of`` or ``required``."""
    if parameter == "member_of":
        member_of, forbidden_aggregates = parse_member_of(values, version, suffix)
        return {"member_of": member_of, "forbidden_aggregates": forbidden_aggregates}
    # Before 1.39 Placement reads only the last value.
    repeated = microversion.supports(version, "any traits")
    required, forbidden = parse_traits(values if repeated else values[-1:], version)
    return {"required": required, "forbidden": forbidden}


def _check_groups(
    groups: dict[str, candidate.RequestGroup],
    subtrees: tuple[frozenset[str], ...],
    version: microversion.Microversion,
) -> None:
    """Raise for groups without resources that are not allowed, and for contradictions."""
    without_resources = [suffix for suffix, group in groups.items() if not group.resources]
    if microversion.supports(version, "candidate same_subtree"):
        _check_resourceless(groups, without_resources, subtrees)
    else:
        _check_orphans([groups[suffix] for suffix in without_resources])
        if len(without_resources) == len(groups):
            raise http_errors.HttpBadRequest(
                "At least one request group (`resources` or `resources{$S}`) is required."
            )
    conflicts = [
        f"required{group.suffix}: ({traits})"
        for group in groups.values()
        for traits in sorted(
            ", ".join(sorted(any_of)) for any_of in group.required if any_of <= group.forbidden
        )
    ]
    if conflicts:
        raise http_errors.HttpBadRequest(
            "Conflicting required and forbidden traits found in the following traits keys:"
            f" {', '.join(conflicts)}"
        )


def _check_resourceless(
    groups: dict[str, candidate.RequestGroup],
    without_resources: list[str],
    subtrees: tuple[frozenset[str], ...],
) -> None:
    if len(without_resources) == len(groups):
        raise http_errors.HttpBadRequest(
            "There must be at least one resources or resources[$S] parameter.",
            http_errors.QUERY_MISSING_VALUE,
        )
    in_subtrees = frozenset().union(*subtrees)
    outside = sorted(suffix for suffix in without_resources if suffix not in in_subtrees)
    if outside:
        raise http_errors.HttpBadRequest(
            "Resourceless suffixed group request should be specified in `same_subtree` query"
            f" param: bad group(s) - {outside}.",
            http_errors.QUERY_BAD_VALUE,
        )
    unknown = sorted(in_subtrees - groups.keys())
    if unknown:
        raise http_errors.HttpBadRequest(
            f"Real suffixes should be specified in `same_subtree`: {unknown} not found in"
            f" {[*groups]}.",
            http_errors.QUERY_BAD_VALUE,
        )


def _check_orphans(without_resources: list[candidate.RequestGroup]) -> None:
    """Raise for conditions of groups that request no resources.

    Forbidden traits alone are no orphan of the key "required". Only its text has two spaces.
    """
    orphaned: dict[tuple[str, str], list[candidate.RequestGroup]] = {
        ("traits", "required"): [group for group in without_resources if group.required],
        ("member_of", "member_of"): [
            group for group in without_resources if group.member_of or group.forbidden_aggregates
        ],
    }
    for (word, key), groups in orphaned.items():
        orphans = sorted(f"{key}{group.suffix}" for group in groups)
        if orphans:
            space = "  " if word == "traits" else " "
            raise http_errors.HttpBadRequest(
                f"All {word} parameters must be associated with resources.{space}Found the"
                f" following orphaned {word} keys: {', '.join(orphans)}"
            )
    if any(group.in_tree or group.forbidden for group in without_resources):
        raise http_errors.HttpBadRequest("All request groups must specify resources.")


def _subtree_suffixes(values: dict[str, list[str]]) -> tuple[frozenset[str], ...]:
    """The suffixes of each ``same_subtree``. Errors: HttpBadRequest for an unnamed group."""
    subtrees = tuple(frozenset(_stripped(value)) for value in values.get("same_subtree", []))
    if any("" in suffixes for suffixes in subtrees):
        raise http_errors.HttpBadRequest(
            "Empty string (unsuffixed group) can not be specified in `same_subtree` ",
            http_errors.QUERY_BAD_VALUE,
        )
    return subtrees


def _root_traits(
    values: dict[str, list[str]], version: microversion.Microversion
) -> tuple[frozenset[str], frozenset[str]]:
    texts = values.get("root_required", [])
    if len(texts) > 1:
        raise http_errors.HttpBadRequest(
            "Query parameter 'root_required' may be specified only once.",
            http_errors.QUERY_DUPLICATE_KEY,
        )
    alternatives, forbidden = parse_traits(texts, version, may_be_any=False)
    required = frozenset().union(*alternatives)
    both = sorted(required & forbidden)
    if both:
        raise http_errors.HttpBadRequest(
            f"Conflicting required and forbidden traits found in root_required: {', '.join(both)}",
            http_errors.QUERY_BAD_VALUE,
        )
    return required, forbidden
