"""Who holds what: allocations read per provider, and of some consumers whole.

Called by ``observe``, which knows of whom to ask.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, TypeVar

from osc_placement.client import api, api_errors, responses, retry
from osc_placement.model import allocation, provider
from osc_placement.plan import workers
from osc_placement.workflows.batch import plan

R = TypeVar("R")

#: Up to so many providers are asked each, rather than first which of them are empty.
_FEW = 5

#: Of how many hosts one query is to tell: as many as nova's scheduler asks for.
_PAGE = 1000


class Held(NamedTuple):
    """Allocations as they were read: by provider, and of some consumers whole."""

    by_provider: Mapping[str, responses.ProviderAllocations]
    whole: Mapping[str, allocation.Consumer]
    unread: Mapping[str, str]
    summaries: Mapping[str, responses.ProviderSummary] = {}


def read_all(
    client: api.Client, providers: Sequence[provider.Provider], reading: plan.ReadContext
) -> Held:
    """Every provider; those that are known to have nothing allocated need not be asked."""
    summaries = _summaries(client) if len(providers) > _FEW else {}
    empty = {
        uuid
        for uuid, summary in summaries.items()
        if not any(amount.used for amount in summary.resources.values())
    }
    uuids = [item.uuid for item in providers if item.uuid not in empty]
    read, unread = read_each("allocations", client.list_provider_allocations, uuids, reading)
    return Held(read, {}, unread, summaries)


def _summaries(client: api.Client) -> Mapping[str, responses.ProviderSummary]:
    """Capacities and usages of the trees of up to 1000 hosts that have memory left.

    One request, which a busy or an old Placement may refuse: then nothing is known.
    """
    pairs = [("resources", "MEMORY_MB:1"), ("limit", str(_PAGE))]
    try:
        return retry.read(lambda: client.list_allocation_candidates(pairs)).summaries
    except (api_errors.ApiError, api_errors.UnsupportedVersion):
        return {}


def read_near(
    client: api.Client,
    near: Sequence[str],
    servers: Collection[str],
    reading: plan.ReadContext,
    *,
    absent_only: bool = False,
) -> Held:
    """The providers that are ``near``, and the servers' consumers wherever they hold something.

    ``absent_only``: only those consumers that hold nothing near.
    """
    read, unread = read_each("allocations", client.list_provider_allocations, near, reading)
    there = {uuid for told in read.values() for uuid in told.allocations} if absent_only else ()
    wanted = [uuid for uuid in servers if uuid not in there]
    return Held(read, read_consumers(client, wanted, reading), unread)


def read_consumers(
    client: api.Client, uuids: Collection[str], reading: plan.ReadContext
) -> dict[str, allocation.Consumer]:
    """Each whole, also those that do not exist. One request for each."""
    reading.watch.expect("reading consumers", len(uuids))
    found = {}
    for one in workers.each(
        lambda uuid: retry.read(lambda: client.show_allocations(uuid)), uuids, reading.workers
    ):
        found[one.uuid] = one
        reading.watch.advance()
    return found


def read_each(
    what: str, read: Callable[[str], R], uuids: Sequence[str], reading: plan.ReadContext
) -> tuple[dict[str, R], dict[str, str]]:
    """What was read of each provider, and why that failed: one does not stop the others."""

    def tried(uuid: str) -> R | api_errors.ApiError:
        try:
            return retry.read(lambda: read(uuid))
        except api_errors.ApiError as error:
            if error.status in (401, 403):
                raise
            return error

    found: dict[str, R] = {}
    unread: dict[str, str] = {}
    reading.watch.expect(f"reading {what}", len(uuids))
    for uuid, told in zip(uuids, workers.each(tried, uuids, reading.workers), strict=True):
        if isinstance(told, api_errors.ApiError):
            unread[uuid] = str(told)
        else:
            found[uuid] = told
        reading.watch.advance()
    return found, unread
