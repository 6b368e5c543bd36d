"""Reading what a reshape's facts speak of, and writing it: one POST /reshaper.

Called by ``kind``.
"""

from __future__ import annotations

from osc_placement import microversion
from osc_placement.client import answer, api
from osc_placement.workflows import change, guard, worker
from osc_placement.workflows.reshape import facts


def read(client: api.Client, about: change.Facts) -> facts.Seen:
    """What ``about`` speaks of. Cost: two requests per provider and one per consumer."""
    client.need("reshaper", "reading what is to be reshaped")
    providers, consumers = facts.providers(about), facts.consumers(about)

    def provider(uuid: str) -> tuple[answer.ProviderInventories, answer.ProviderAllocations]:
        # In this order: who writes in between raises the generation that is written under.
        return client.list_inventories(uuid), client.list_provider_allocations(uuid)

    # Providers last: on a busy host it is their generations that do not stand for long.
    met = list(worker.each(client.show_allocations, consumers, guard.WORKERS))
    told = dict(zip(providers, worker.each(provider, providers, guard.WORKERS), strict=True))
    return facts.Seen(
        inventories={uuid: inventories for uuid, (inventories, _) in told.items()},
        shares={
            uuid: {consumer: share.resources for consumer, share in shares.allocations.items()}
            for uuid, (_, shares) in told.items()
        },
        consumers={item.uuid: item for item in met},
    )


def write(client: api.Client, after: change.Facts, seen: facts.Seen) -> None:
    """POST /reshaper, under the generations that were seen."""
    client.need("reshaper", "reshaping")
    sender = client.at(min(client.microversion, microversion.TYPE_STAYS))
    sender.reshape(facts.renewed_inventories(after, seen), facts.renewed_consumers(after, seen))
