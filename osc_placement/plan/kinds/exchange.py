"""Reading what a reshape's facts speak of, and writing it: one POST /reshaper.

Called by ``kind``.
"""

from __future__ import annotations

from osc_placement import microversion
from osc_placement.client import api, responses
from osc_placement.plan import change, guards, workers
from osc_placement.plan.kinds import reshape


def read(client: api.Client, about: change.Facts) -> reshape.Seen:
    """What ``about`` speaks of. Cost: two requests per provider and one per consumer."""
    client.require_feature("reshaper", "reading what is to be reshaped")
    providers, consumers = reshape.providers(about), reshape.consumers(about)

    def provider(uuid: str) -> tuple[responses.ProviderInventories, responses.ProviderAllocations]:
        # In this order: who writes in between raises the generation that is written under.
        return client.list_inventories(uuid), client.list_provider_allocations(uuid)

    # Providers last: on a busy host it is their generations that do not stand for long.
    met = list(workers.each(client.show_allocations, consumers, guards.WORKERS))
    told = dict(zip(providers, workers.each(provider, providers, guards.WORKERS), strict=True))
    return reshape.Seen(
        inventories={uuid: inventories for uuid, (inventories, _) in told.items()},
        shares={
            uuid: {consumer: share.resources for consumer, share in shares.allocations.items()}
            for uuid, (_, shares) in told.items()
        },
        consumers={item.uuid: item for item in met},
    )


def write(client: api.Client, after: change.Facts, seen: reshape.Seen) -> None:
    """POST /reshaper, under the generations that were seen."""
    client.require_feature("reshaper", "reshaping")
    sender = client.at(min(client.microversion, microversion.TYPE_STAYS))
    sender.reshape(reshape.renewed_inventories(after, seen), reshape.renewed_consumers(after, seen))
