"""From what an operator calls a provider, a name or a UUID, to its UUID.

Called by commands and workflows wherever a provider is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from osc_placement.client import api_errors
from osc_placement.model import name

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.model import provider

#: From how many names on one listing of everything is cheaper than a request per name.
_MANY = 5

_SHOWN = 5


def provider_uuid(client: api.Client, text: str) -> str:
    """The UUID of the provider that ``text`` names.

    Cost: none for a UUID (whether there is such a provider shows at its first use), one
    request for a name, one listing more when it is unknown. Errors: UnknownProvider.
    """
    return provider_uuids(client, [text])[text]


def provider_uuids(client: api.Client, texts: Iterable[str]) -> dict[str, str]:
    """``{text: uuid}`` of each name or UUID; the order given, repetitions once.

    Cost: none for UUIDs, at most five requests for names, and one listing of all
    providers when there are more or when one is unknown. Errors: UnknownProvider, which
    names every text that is unknown or ambiguous.
    """
    wanted = list(dict.fromkeys(texts))
    names = [text for text in wanted if not name.is_uuid(text)]
    found = _by_name(client, names)
    _check(client, names, found)
    return {
        text: found[text][0].uuid if text in found else name.canonical_uuid(text) for text in wanted
    }


def _by_name(client: api.Client, names: Sequence[str]) -> dict[str, list[provider.Provider]]:
    if len(names) > _MANY:
        return _sort_out(names, client.list_providers())
    return {
        text: _sort_out([text], client.list_providers(name=text) if text else [])[text]
        for text in names
    }


def _sort_out(
    names: Iterable[str], listed: Iterable[provider.Provider]
) -> dict[str, list[provider.Provider]]:
    found: dict[str, list[provider.Provider]] = {text: [] for text in names}
    for item in listed:
        if item.name in found:
            found[item.name].append(item)
    return found


def _check(
    client: api.Client, names: Sequence[str], found: dict[str, list[provider.Provider]]
) -> None:
    unknown = [text for text in names if not found[text]]
    ambiguous = [text for text in names if len(found[text]) > 1]
    known = [item.name for item in client.list_providers()] if unknown else []
    reasons = [_unknown(text, known) for text in unknown]
    reasons += [_ambiguous(text, found[text]) for text in ambiguous]
    if reasons:
        raise api_errors.UnknownProvider(reasons)


def _unknown(text: str, known: Sequence[str]) -> str:
    import difflib

    similar = [item for item in known if text and text.lower() in item.lower()][:_SHOWN]
    similar = similar or difflib.get_close_matches(text, known, n=_SHOWN)
    hint = f"; similar: {', '.join(similar)}" if similar else ""
    return f"No resource provider has the name or UUID {text!r}{hint}"


def _ambiguous(text: str, found: Iterable[provider.Provider]) -> str:
    uuids = ", ".join(item.uuid for item in found)
    return f"More than one resource provider has the name {text!r}; give its UUID: {uuids}"
