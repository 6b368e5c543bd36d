"""Which providers share what they have with whose trees. Called by ``observe``."""

from __future__ import annotations

from collections.abc import Iterable

from osc_placement.client import api, retry
from osc_placement.model import provider
from osc_placement.plan import workers
from osc_placement.workflows.batch import plan

_SHARES = "MISC_SHARES_VIA_AGGREGATE"


def observe_sharing(
    client: api.Client, providers: Iterable[provider.Provider], reading: plan.ReadContext
) -> dict[str, tuple[str, ...]]:
    """``{root uuid: providers that share with its tree}``, in the order of the listing.

    Cost: one request, and two for each provider that shares.
    """
    shares = retry.read(lambda: client.list_providers(required=[_SHARES]))
    roots = {item.uuid: item.root_uuid or item.uuid for item in providers}
    found: dict[str, dict[str, None]] = {}
    members = workers.each(lambda item: _members(client, item.uuid), shares, reading.workers)
    for share, uuids in zip(shares, members, strict=True):
        for root in dict.fromkeys(roots.get(uuid, uuid) for uuid in uuids):
            if root != (share.root_uuid or share.uuid):
                found.setdefault(root, {})[share.uuid] = None
    return {root: tuple(uuids) for root, uuids in found.items()}


def _members(client: api.Client, share: str) -> list[str]:
    """The providers that are in an aggregate with one that shares."""
    aggregates = retry.read(lambda: client.list_aggregates(share)).aggregates
    if not aggregates:
        return []
    wanted = f"in:{','.join(aggregates)}"
    return [item.uuid for item in retry.read(lambda: client.list_providers(member_of=[wanted]))]
