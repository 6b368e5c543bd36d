"""Which providers a batch is about: what the operator wrote, and what it stands for.

``Selector`` is the operator's words, ``select`` asks the cloud. Called by ``batch``.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from osc_placement import errors
from osc_placement.client import api, api_errors, lookup, retry
from osc_placement.engine import standard
from osc_placement.model import name, provider
from osc_placement.workflows import context

_NOTHING = (
    "nothing is selected: name providers, or give --member-of, --in-tree, --required,"
    " --forbidden, --name-glob, --providers-from or --all"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Selector:
    """What was asked for; each part that is given narrows the others.

    ``providers`` are names or UUIDs. ``member_of`` items are aggregates or ``in:A,B``, either
    with ``!`` before it; ``required`` items traits or ``in:A,B``. Of ``name_globs`` one
    must fit.
    """

    providers: tuple[str, ...] = ()
    member_of: tuple[str, ...] = ()
    in_tree: str | None = None
    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    name_globs: tuple[str, ...] = ()
    everything: bool = False

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in dataclasses.fields(self))

    def __str__(self) -> str:
        words = [*self.providers]
        for option, values in (
            ("--member-of", self.member_of),
            ("--in-tree", [self.in_tree] if self.in_tree else []),
            ("--required", self.required),
            ("--forbidden", self.forbidden),
            ("--name-glob", self.name_globs),
        ):
            words += [word for value in values for word in (option, value)]
        return shlex.join([*words, "--all"] if self.everything else words)


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """The providers that a selector stands for, by name.

    ``filters`` are the parameters of the listing that found them, to be asked again with
    one more; None when they were looked up one by one.
    """

    providers: tuple[provider.Provider, ...]
    filters: Mapping[str, Any] | None = None


def provider_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """The providers of a ``--providers-from`` file: one a line; # begins a comment line."""
    stripped = (line.strip() for line in lines)
    return tuple(line for line in stripped if line and not line.startswith("#"))


def select(
    client: api.Client, selector: Selector, host_aggregates: context.HostAggregates | None = None
) -> Selection:
    """Ask the cloud which providers these are.

    Cost: one listing for aggregates, trees, traits, globs or all; for named providers one
    request each, or one listing of all from six on. A tree named by name, and an
    aggregate that is not a UUID, cost a look-up more.
    Errors: InvalidInput with every fault, an empty selection among them.
    """
    faults = errors.InputErrors([] if selector else [_NOTHING])
    filters = _filters(client, selector, host_aggregates, faults)
    named = _named(client, selector.providers, faults)
    if filters and faults:
        _add_unknown_traits(client, filters, faults)
    if filters and not faults:
        listed = _listed(client, filters, faults)
    elif selector.everything or (selector.name_globs and named is None):
        listed = retry.read(client.list_providers) if not faults else []
    else:
        listed = None
    faults.check()
    found = _narrowed(named, listed, selector.name_globs)
    if not found:
        raise errors.InvalidInput([f"the selection is empty: no provider meets {selector}"])
    whole = listed is not None or len(set(selector.providers)) > lookup.MAX_SINGLE_REQUESTS
    return Selection(tuple(found), filters if whole else None)


def unknown_traits(client: api.Client, names: Iterable[str]) -> list[str]:
    """Those of ``names`` that the cloud does not have. One request, none for no names."""
    wanted = list(dict.fromkeys(names))
    known = set(client.list_traits(name=f"in:{','.join(wanted)}")) if wanted else set()
    return [item for item in wanted if item not in known]


def unknown_trait_fault(trait: str) -> str:
    """What is wrong with a trait that the cloud does not have, and what to do."""
    if trait.startswith(name.CUSTOM_PREFIX) and name.is_custom(trait):
        return (
            f"unknown trait {trait}: 'openstack trait list' shows those that there are,"
            f" 'openstack trait create {trait}' makes it"
        )
    if trait in standard.traits():
        return f"the server does not know the standard trait {trait}: it has an older os-traits"
    return (
        f"unknown trait {trait}: standard traits are those of 'openstack trait list',"
        " your own begin with CUSTOM_ and have capitals, digits and _"
    )


def aggregate_uuids(
    texts: Iterable[str], host_aggregates: context.HostAggregates | None
) -> dict[str, str]:
    """``{text: aggregate UUID}``; what is no UUID is a nova host aggregate's name or id.

    Cost: nova is asked once, and only for what is no UUID. Errors: InvalidInput.
    """
    wanted = list(dict.fromkeys(texts))
    found = {text: name.canonical_uuid(text) for text in wanted if name.is_uuid(text)}
    others = [text for text in wanted if text not in found]
    if others and host_aggregates is None:
        raise errors.InvalidInput(
            f"aggregate {text!r} is no UUID, and there is no compute service here to look"
            " a host aggregate's name up"
            for text in others
        )
    known = host_aggregates() if others and host_aggregates else ()
    matches = {text: [item for item in known if text in (item.name, item.id)] for text in others}
    faults = [
        f"aggregate {text!r} is no UUID, and {len(items) or 'no'} nova host"
        f" aggregate{'s have' if len(items) > 1 else ' has'} that name or id"
        for text, items in matches.items()
        if len(items) != 1
    ]
    if faults:
        raise errors.InvalidInput(faults)
    return found | {text: items[0].uuid for text, items in matches.items()}


def _filters(
    client: api.Client,
    selector: Selector,
    host_aggregates: context.HostAggregates | None,
    faults: errors.InputErrors,
) -> dict[str, Any]:
    """The parameters of the listing; empty when nothing asks for one."""
    filters: dict[str, Any] = {}
    with faults.collected():
        if selector.member_of:
            filters["member_of"] = _member_of(selector.member_of, host_aggregates)
    if selector.required or selector.forbidden:
        filters["required"] = [*selector.required, *(f"!{item}" for item in selector.forbidden)]
    with faults.collected():
        if selector.in_tree:
            filters["in_tree"] = lookup.provider_uuid(client, selector.in_tree)
    return filters


def _member_of(texts: Sequence[str], host_aggregates: context.HostAggregates | None) -> list[str]:
    parts = {text: text.removeprefix("!").removeprefix("in:").split(",") for text in texts}
    uuids = aggregate_uuids((part for found in parts.values() for part in found), host_aggregates)
    return [_with_prefix(text, [uuids[part] for part in parts[text]]) for text in texts]


def _with_prefix(text: str, uuids: Sequence[str]) -> str:
    negation = "!" if text.startswith("!") else ""
    alternatives = "in:" if text.removeprefix("!").startswith("in:") else ""
    return negation + alternatives + ",".join(uuids)


def _named(
    client: api.Client, texts: Sequence[str], faults: errors.InputErrors
) -> list[provider.Provider] | None:
    """The providers with these names and UUIDs; None when no name is given."""
    if not texts:
        return None
    found = lookup.find_providers(client, texts)
    faults.reasons += [
        f"{lookup.unknown_provider(text)}: 'openstack resource provider list' shows all"
        for text in texts
        if text not in found
    ]
    return list(provider.by_uuid(found.values()).values())


def _listed(
    client: api.Client, filters: Mapping[str, Any], faults: errors.InputErrors
) -> list[provider.Provider]:
    try:
        return retry.read(functools.partial(client.list_providers, **filters))
    except api_errors.ApiError as error:
        if error.status == 400:
            _add_unknown_traits(client, filters, faults)
        if not faults:
            raise
        return []


def _add_unknown_traits(
    client: api.Client, filters: Mapping[str, Any], faults: errors.InputErrors
) -> None:
    with faults.collected():
        for trait in unknown_traits(client, _trait_names(filters.get("required", ()))):
            faults.add(unknown_trait_fault(trait))


def _trait_names(required: Iterable[str]) -> list[str]:
    """The traits in ``T``, ``!T`` and ``in:A,B``."""
    bare = (item.removeprefix("!").removeprefix("in:") for item in required)
    return [trait for item in bare for trait in item.split(",")]


def _narrowed(
    named: list[provider.Provider] | None,
    listed: list[provider.Provider] | None,
    globs: Sequence[str],
) -> list[provider.Provider]:
    if named is None:
        found = list(listed or ())
    elif listed is None:
        found = named
    else:
        kept = {item.uuid for item in listed}
        found = [item for item in named if item.uuid in kept]
    if globs:
        found = [
            item for item in found if any(fnmatch.fnmatchcase(item.name, glob) for glob in globs)
        ]
    return sorted(found, key=lambda item: (item.name, item.uuid))
