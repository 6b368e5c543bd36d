# SPDX-License-Identifier: Apache-2.0
"""Selecting providers: ``Selector`` holds the operator's arguments, ``select`` evaluates them.

To add a selector, add a field to ``Selector`` and use it in ``select``; its option is in
``v1/common/arguments.py``.
"""

from __future__ import annotations

import dataclasses
import difflib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from osc_placement import errors
from osc_placement.client import api, api_errors, lookup
from osc_placement.engine import standard
from osc_placement.model import command_line, name, provider
from osc_placement.nova import values
from osc_placement.plan import workers
from osc_placement.workflows.cloud.cloud import no_provider
from osc_placement.workflows.cloud.named_aggregates import NamedAggregates, selected_uuids

LOG = logging.getLogger(__name__)

#: Gives ``{text: UUID}`` of the providers that have these names and UUIDs.
FindProviders = Callable[[Sequence[str]], Mapping[str, str]]

_NOTHING = (
    "nothing is selected: name providers, or give --member-of, --in-tree, --required,"
    " --forbidden, --name-glob, --unused, --providers-from or --all"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Selector:
    """The arguments of a selection; a provider must match all that are given.

    ``providers`` are names or UUIDs. An item of ``member_of`` is an aggregate or ``in:A,B``,
    also after ``!``; an item of ``required`` is a trait or ``in:A,B``. At least one of
    ``name_globs`` must match. ``unused``: nothing is allocated from it.
    """

    providers: tuple[str, ...] = ()
    member_of: tuple[str, ...] = ()
    in_tree: str | None = None
    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    name_globs: tuple[str, ...] = ()
    everything: bool = False
    unused: bool = False

    def __bool__(self) -> bool:
        # An empty name of a tree is an unknown provider, and not a missing condition.
        return self != Selector()

    def __str__(self) -> str:
        return " ".join(map(command_line.quote, command_line.words(self.providers, self.options())))

    def options(self) -> list[command_line.Option]:
        """The selection as options of a command line, without the providers."""
        options: list[command_line.Option] = []
        for option, texts in (
            ("--member-of", self.member_of),
            ("--in-tree", [] if self.in_tree is None else [self.in_tree]),
            ("--required", self.required),
            ("--forbidden", self.forbidden),
            ("--name-glob", self.name_globs),
        ):
            options += [(option, text) for text in texts]
        options += [("--all", None)] if self.everything else []
        return [*options, ("--unused", None)] if self.unused else options


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """The selected providers, sorted by name.

    ``filters`` are the parameters of the listing that found them, for narrower listings;
    None when the providers were looked up one by one.
    """

    providers: tuple[provider.Provider, ...]
    filters: Mapping[str, Any] | None = None


def provider_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """The providers of a ``--providers-from`` file: one per line; ``#`` starts a comment line."""
    stripped = (line.strip() for line in lines)
    return tuple(line for line in stripped if line and not line.startswith("#"))


def select(
    client: api.Client, selector: Selector, names: NamedAggregates | None = None
) -> Selection:
    """Find the providers of a selector.

    Requests: one listing for aggregates, trees, traits, globs or all providers; for named
    providers those of ``lookup.find_providers``. The name of a tree costs one request, and
    the name of an aggregate those of ``selected_uuids``. ``unused``: one GET of usages per
    provider that matches everything else.
    Errors: InvalidInput with every error, also for an empty selection.
    """
    input_errors = errors.InputErrors([] if selector else [_NOTHING])
    filters = _filters(client, selector, names, input_errors)
    named = _named(client, selector.providers, input_errors)
    if input_errors:
        with input_errors.collected():
            input_errors.reasons += _unknown_traits_of(client, filters)
        input_errors.check()
    listed = None
    is_wide = selector.everything or ((selector.name_globs or selector.unused) and named is None)
    if filters or is_wide:
        listed = _listed(client, filters)
    chosen = _narrowed(named, listed, selector.name_globs)
    if selector.unused:
        chosen = _unused(client, chosen)
    if not chosen:
        raise errors.InvalidInput([f"the selection is empty: no provider meets {selector}"])
    LOG.info("%d providers match %s", len(chosen), selector)
    many = listed is not None or len(set(selector.providers)) > lookup.MAX_SINGLE_REQUESTS
    return Selection(tuple(chosen), filters if many else None)


def listed(
    client: api.Client,
    selector: Selector,
    names: NamedAggregates | None,
    input_errors: errors.InputErrors,
    **filters: Any,
) -> list[provider.Provider]:
    """The providers that match a selector and other ``filters`` of the listing, if any.

    In the server's order; without a selector all providers.
    Requests: one listing, and those of ``select`` for names and for ``unused``.
    Errors: InvalidInput with ``input_errors`` and all unknown names and aggregates; the
    server's own for traits.
    """
    selected = _filters(client, selector, names, input_errors)
    named = _named(client, selector.providers, input_errors)
    input_errors.check()
    providers = client.list_providers(**filters, **selected)
    if named is not None:
        uuids = {item.uuid for item in named}
        providers = [item for item in providers if item.uuid in uuids]
    providers = _with_names(providers, selector.name_globs)
    return _unused(client, providers) if selector.unused else providers


def unknown_traits(client: api.Client, names: Iterable[str]) -> list[str]:
    """The traits of ``names`` that the cloud does not have. Requests: one GET, if any name."""
    requested = list(dict.fromkeys(names))
    existing = set(client.list_traits(name=f"in:{','.join(requested)}")) if requested else set()
    return [item for item in requested if item not in existing]


def unknown_classes(client: api.Client, names: Iterable[str]) -> list[str]:
    """The resource classes of ``names`` that the cloud does not have. Requests: one GET."""
    existing = set(client.list_resource_classes())
    return [item for item in names if item not in existing]


def unknown_trait_message(trait: str, *, advise_create: bool = False) -> str:
    """The error message for a trait that the cloud does not have; the nearest standard one first.

    ``advise_create``: the trait is to be added, and a custom one can be created.
    """
    if trait in standard.traits():
        return f"the server's version of os-traits does not have the standard trait {trait}"
    text = f"unknown trait {trait}: "
    if name.is_custom(trait):
        created = f", 'openstack trait create {trait}' creates it" if advise_create else ""
        return f"{text}'openstack trait list' shows the traits{created}"
    text += "".join(
        f"is it {nearest}? "
        for nearest in difflib.get_close_matches(trait.upper(), standard.traits(), 1)
    )
    return (
        f"{text}'openstack trait list' shows the traits; names of custom traits"
        " begin with CUSTOM_ and consist of capital letters, digits and _"
    )


def requested_trait_message(trait: str) -> str:
    """The message for a trait that servers ask for: how to create it, and give it to a host."""
    text = unknown_trait_message(trait, advise_create=True)
    on_host = f", 'openstack resource provider trait add --trait {trait} HOST' gives it to a host"
    return text + on_host if name.is_custom(trait) else text


def host_uuids(
    find: FindProviders, texts: Iterable[str], hosts: values.Hosts | None, why: str = ""
) -> dict[str, list[str]]:
    """``{text: provider UUIDs}`` for names and UUIDs of providers, and nova's names of hosts.

    ``find`` gives the UUIDs of providers by name or UUID. A host of nova has the providers of its
    compute nodes: one, or with Ironic several. The provider of a node has its UUID; one that has
    only its hostname counts if it is of no other node. ``hosts`` is None if nova was not
    read; ``why`` ends the error then.
    Requests: those of ``find``, and if no provider has a name, those of ``find`` for the compute
    nodes of the host. Errors: UnknownProvider with every name.
    """
    requested = list(dict.fromkeys(texts))
    uuids = {text: [uuid] for text, uuid in find(requested).items()}
    others = [text for text in requested if text not in uuids]
    by_name: Mapping[str, str] = {}
    if others and hosts is not None:
        of_host = hosts.of_host()
        nodes = {text: of_host.get(text, []) for text in others}
        several = [node for listed in nodes.values() for node in listed]
        # What the providers of nodes may be called.
        by_name = find([name for node in several for name in (node.uuid, node.hostname)])
        of_nodes = {node.uuid for node in hosts.nodes}
        for text, listed in nodes.items():
            providers = (_provider_of(node, by_name, of_nodes) for node in listed)
            uuids[text] = list(dict.fromkeys(filter(None, providers)))
    missing = [text for text in requested if not uuids.get(text)]
    unknown = [_unknown_host(text, hosts, by_name) + why for text in missing]
    if unknown:
        raise api_errors.UnknownProvider(unknown)
    return {text: uuids[text] for text in requested}


def _provider_of(
    node: values.ComputeNode, by_name: Mapping[str, str], of_nodes: Collection[str]
) -> str:
    """The UUID of the provider of a node; empty without one. ``of_nodes`` are those of nodes."""
    of_name = by_name.get(node.hostname, "")
    return by_name.get(node.uuid) or ("" if of_name in of_nodes else of_name)


def _unknown_host(text: str, hosts: values.Hosts | None, by_name: Mapping[str, str]) -> str:
    if hosts is None:
        return lookup.unknown_provider(text)
    for node in hosts.nodes:
        if text in (node.host, node.hostname, node.uuid):
            taken = by_name.get(node.hostname)
            other = next((each.host for each in hosts.nodes if each.uuid == taken), "")
            return f"{text}: {no_provider(node.host, other)}"
    return f"{lookup.unknown_provider(text)}, and nova has no compute node on a host of this name"


def _filters(
    client: api.Client,
    selector: Selector,
    names: NamedAggregates | None,
    input_errors: errors.InputErrors,
) -> dict[str, Any]:
    """The parameters of the listing; empty if none is needed."""
    filters: dict[str, Any] = {}
    with input_errors.collected():
        if selector.member_of:
            filters["member_of"] = _member_of(client, selector.member_of, names)
    if selector.required or selector.forbidden:
        filters["required"] = [*selector.required, *(f"!{item}" for item in selector.forbidden)]
    with input_errors.collected():
        if selector.in_tree is not None:
            filters["in_tree"] = lookup.provider_uuid(client, selector.in_tree)
    return filters


def _member_of(
    client: api.Client, texts: Sequence[str], names: NamedAggregates | None
) -> list[str]:
    parts = {text: text.removeprefix("!").removeprefix("in:").split(",") for text in texts}
    uuids = selected_uuids(client, (part for several in parts.values() for part in several), names)
    return [_with_prefix(text, [uuids[part] for part in parts[text]]) for text in texts]


def _with_prefix(text: str, uuids: Sequence[str]) -> str:
    negation = "!" if text.startswith("!") else ""
    alternatives = "in:" if text.removeprefix("!").startswith("in:") else ""
    return negation + alternatives + ",".join(uuids)


def _named(
    client: api.Client, texts: Sequence[str], input_errors: errors.InputErrors
) -> list[provider.Provider] | None:
    """The providers with these names and UUIDs; None when no name is given."""
    if not texts:
        return None
    by_text = lookup.find_providers(client, texts)
    input_errors.reasons += [
        f"{lookup.unknown_provider(text)}: 'openstack resource provider list' shows all"
        for text in texts
        if text not in by_text
    ]
    return list(provider.by_uuid(by_text.values()).values())


def _listed(client: api.Client, filters: Mapping[str, Any]) -> list[provider.Provider]:
    """One listing. The server refuses an unknown trait: InvalidInput names it."""
    try:
        return client.list_providers(**filters)
    except api_errors.ApiError as error:
        if error.status == 400:
            errors.InputErrors(_unknown_traits_of(client, filters)).check()
        raise


def _unknown_traits_of(client: api.Client, filters: Mapping[str, Any]) -> list[str]:
    names = _trait_names(filters.get("required", ()))
    return [unknown_trait_message(trait) for trait in unknown_traits(client, names)]


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
        chosen = list(listed or ())
    elif listed is None:
        chosen = named
    else:
        kept = {item.uuid for item in listed}
        chosen = [item for item in named if item.uuid in kept]
    return sorted(_with_names(chosen, globs), key=lambda item: (item.name, item.uuid))


def _unused(client: api.Client, providers: list[provider.Provider]) -> list[provider.Provider]:
    """The providers from which nothing is allocated. Requests: one GET per provider."""

    def is_used(item: provider.Provider) -> bool:
        return any(client.list_usages(item.uuid).values())

    used = workers.each(is_used, providers)
    return [item for item, has_usage in zip(providers, used, strict=True) if not has_usage]


def _with_names(
    providers: list[provider.Provider], globs: Sequence[str]
) -> list[provider.Provider]:
    """The providers with a name that one of the patterns matches; all without patterns."""
    if not globs:
        return providers
    return [item for item in providers if name.matches_glob(item.name, globs)]
