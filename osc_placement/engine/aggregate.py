"""Rules for the aggregates that a provider is a member of."""

from __future__ import annotations

from collections.abc import Sequence

from osc_placement.engine import draft as drafts, provider as providers, record


def replace_all(
    draft: drafts.Draft, uuid: str, aggregates: Sequence[str], generation: int | None
) -> record.ProviderRecord:
    """Set the aggregates of a provider, in the order given.

    ``generation`` None is the rule below 1.19: it is neither checked nor raised.
    """
    provider = providers.require(draft, uuid)
    if generation is None:
        return draft.put_provider(provider.replace(aggregates=tuple(aggregates)))
    providers.check_generation(provider, generation)
    return draft.bump(provider, aggregates=tuple(aggregates))
