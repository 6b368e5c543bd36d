# SPDX-License-Identifier: Apache-2.0
"""Looking up resource providers by name or UUID: the only place that does it.

``provider_uuids`` is for commands, ``find_providers`` for workflows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from osc_placement.client import api_errors
from osc_placement.model import name

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.model import provider

#: Up to this number of objects is read with one request each; for more, one listing is cheaper.
MAX_SINGLE_REQUESTS = 5

_SHOWN = 5

#: ``list_providers`` with the filter ``name=``, ``uuid=`` or none.
_List = Callable[..., "list[provider.Provider]"]


def provider_uuid(client: api.Client, text: str) -> str:
    """The UUID of the provider with the name or UUID ``text``; see ``provider_uuids``."""
    return provider_uuids(client, [text])[text]


def provider_uuids(client: api.Client, texts: Iterable[str]) -> dict[str, str]:
    """``{text: uuid}`` for names and UUIDs, in the order given; UUIDs are not checked.

    Requests: none for UUIDs; one GET for each of up to five names, one listing for more, and one
    if a name is unknown. Errors: UnknownProvider for every name that is unknown or ambiguous.
    """
    requested = list(dict.fromkeys(texts))
    names = [text for text in requested if not name.is_uuid(text)]
    matches = _matching(client.list_providers, names)
    _check(client, names, matches)
    return {
        text: matches[text][0].uuid if text in matches else name.canonical_uuid(text)
        for text in requested
    }


def providers_with_trait(client: api.Client, trait: str) -> frozenset[str]:
    """The UUIDs of the providers with a trait; empty if Placement does not know the trait.

    Requests: one listing. Errors: UnsupportedVersion below 1.18.
    """
    try:
        providers = client.list_providers(required=[trait])
    except api_errors.ApiError as error:
        if error.status != 400:
            raise
        return frozenset()
    return frozenset(item.uuid for item in providers)


def find_providers(client: api.Client, texts: Iterable[str]) -> dict[str, provider.Provider]:
    """``{text: provider}`` for the names and UUIDs that exist, in the order given.

    Requests: one GET for each of up to five texts, or one listing for more. Reads are retried.
    """
    matching = _matching(client.list_providers, list(dict.fromkeys(texts)))
    return {text: providers[0] for text, providers in matching.items() if providers}


def among(
    listed: Iterable[provider.Provider], texts: Iterable[str]
) -> dict[str, list[provider.Provider]]:
    """``{text: the listed providers}`` with that UUID, or that name. Sends nothing."""
    by_name: dict[str, list[provider.Provider]] = {}
    by_uuid = {}
    for item in listed:
        by_name.setdefault(item.name, []).append(item)
        by_uuid[item.uuid] = [item]
    return {
        text: by_uuid.get(name.canonical_uuid(text), [])
        if name.is_uuid(text)
        else by_name.get(text, [])
        for text in texts
    }


def provider_names(client: api.Client, uuids: Iterable[str]) -> dict[str, str]:
    """``{uuid: name}`` of the providers that exist. Requests: as ``find_providers``."""
    return {uuid: item.name for uuid, item in find_providers(client, uuids).items()}


def unknown_provider(text: str) -> str:
    """The message about a name or UUID that no provider has."""
    return f"No resource provider has the name or UUID {text!r}"


def _matching(list_providers: _List, texts: Sequence[str]) -> dict[str, list[provider.Provider]]:
    """``{text: providers}`` with that UUID, or that name."""
    if len(texts) > MAX_SINGLE_REQUESTS:
        return among(list_providers(), texts)
    return {text: _single(list_providers, text) for text in texts}


def _single(list_providers: _List, text: str) -> list[provider.Provider]:
    if not text:
        return []
    if name.is_uuid(text):
        return list_providers(uuid=name.canonical_uuid(text))
    return [item for item in list_providers(name=text) if item.name == text]


def _check(
    client: api.Client, names: Sequence[str], matches: Mapping[str, Sequence[provider.Provider]]
) -> None:
    unknown = [text for text in names if not matches[text]]
    ambiguous = [text for text in names if len(matches[text]) > 1]
    known = [item.name for item in client.list_providers()] if unknown else []
    reasons = [unknown_provider(text) + similar(text, known) for text in unknown]
    reasons += [_ambiguous(text, matches[text]) for text in ambiguous]
    if reasons:
        raise api_errors.UnknownProvider(reasons)


def similar(text: str, names: Sequence[str]) -> str:
    """The end of a message about an unknown name: those that are like it, if there are any."""
    import difflib

    alike = [item for item in names if text and text.lower() in item.lower()][:_SHOWN]
    alike = alike or difflib.get_close_matches(text, names, n=_SHOWN)
    return f"; similar: {', '.join(alike)}" if alike else ""


def _ambiguous(text: str, matching: Iterable[provider.Provider]) -> str:
    uuids = ", ".join(item.uuid for item in matching)
    return f"More than one resource provider has the name {text!r}; give its UUID: {uuids}"
