"""Hosts by name or UUID, in a state."""

from __future__ import annotations

from collections.abc import Iterable

from osc_placement.client import lookup
from osc_placement.client.api_errors import UnknownProvider
from osc_placement.engine import state
from osc_placement.model import name


def roots_named(base: state.State, texts: Iterable[str]) -> list[str]:
    """The root UUIDs of providers by name or UUID. Errors: UnknownProvider."""
    found = {text: _uuid(base, text) for text in texts}
    unknown = [lookup.unknown_provider(text) for text, uuid in found.items() if not uuid]
    if unknown:
        raise UnknownProvider(unknown)
    return [base.providers[uuid].root_uuid for uuid in found.values()]


def _uuid(base: state.State, text: str) -> str:
    if name.is_uuid(text) and name.canonical_uuid(text) in base.providers:
        return name.canonical_uuid(text)
    return base.named.get(text, "")
