"""Rules for the aggregates of a provider."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from osc_placement.engine import draft as drafts, provider as providers, record


def replace_all(
    draft: drafts.Draft, uuid: str, aggregates: Sequence[str], generation: int | None
) -> record.ProviderRecord:
    """Set the aggregates of a provider, in the given order.

    ``generation`` None means below 1.19: the generation is neither checked nor increased.
    """
    provider = providers.require(draft, uuid)
    if generation is None:
        return draft.put_provider(dataclasses.replace(provider, aggregates=tuple(aggregates)))
    providers.check_generation(provider, generation)
    return draft.bump(dataclasses.replace(provider, aggregates=tuple(aggregates)))
