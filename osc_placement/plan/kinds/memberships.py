"""Changes of the traits and of the aggregates of a provider."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from osc_placement.client import api, responses
from osc_placement.plan import change
from osc_placement.plan.kinds import base


def observed_traits(generation: int, names: Iterable[str]) -> change.Observed:
    """All traits that a provider has, in the form in which a write needs them."""
    present = tuple(names)
    return change.Observed(generation, dict.fromkeys(present, True), present)


def _traits(found: responses.ProviderTraits) -> change.Observed:
    return change.Observed(found.generation, dict.fromkeys(found.traits, True), found.traits)


def _read_traits(client: api.Client, item: change.Change) -> change.Observed:
    return _traits(client.list_provider_traits(item.subject.uuid))


def _write_traits(
    client: api.Client, item: change.Change, observed: change.Observed
) -> change.Observed:
    names = _merged(observed.whole, item.after)
    generation = observed.generation or 0
    return _traits(client.replace_provider_traits(item.subject.uuid, generation, names))


def _aggregates(found: responses.ProviderAggregates) -> change.Observed:
    return change.Observed(
        found.generation, dict.fromkeys(found.aggregates, True), found.aggregates
    )


def _read_aggregates(client: api.Client, item: change.Change) -> change.Observed:
    client.require_feature("aggregate generation", "changing aggregates safely")
    return _aggregates(client.list_aggregates(item.subject.uuid))


def _write_aggregates(
    client: api.Client, item: change.Change, observed: change.Observed
) -> change.Observed:
    uuids = _merged(observed.whole, item.after)
    return _aggregates(client.replace_aggregates(item.subject.uuid, observed.generation, uuids))


def _merged(present: Collection[str], after: change.Facts) -> list[str]:
    """What is there, in its order, less what goes, and then what comes."""
    kept = [name for name in present if after.get(name, True)]
    return kept + [name for name, wanted in after.items() if wanted and name not in present]


TRAITS = base.ChangeType(_read_traits, _write_traits)
AGGREGATES = base.ChangeType(_read_aggregates, _write_aggregates)
