"""The online data migrations that there are, in the order in which they are run.

A new one is a function that yields slices and an entry of MIGRATIONS. Called by
``placement migration list`` and ``run``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from osc_placement.workflows import mirror
from osc_placement.workflows.allocations import consumer_type
from osc_placement.workflows.migration import Cursor, Migration, Services, Slice


def _mirror(services: Services, _: str) -> Iterator[Slice]:
    """All at once: host aggregates are read whole in any case."""
    planned = mirror.plan_mirror(
        services.client, services.nova, mirror.Wish(), services.reading
    ).planned
    yield Slice(Cursor.END, planned)


def _consumer_types(services: Services, after: str) -> Iterator[Slice]:
    parts = consumer_type.plan_types(
        services.client, services.nova, after=after, workers=services.reading.workers
    )
    for position, planned in parts:
        yield Slice(position, planned)


MIGRATIONS: Sequence[Migration] = (
    Migration(
        "mirror_host_aggregates",
        "Adds compute nodes to the placement aggregates that mirror their nova host aggregates",
        _mirror,
        "'openstack placement aggregate mirror --dry-run' shows them",
        needs="aggregate generation",
    ),
    Migration(
        "set_consumer_types",
        "Gives the consumers of nova's servers and migrations their type: INSTANCE, MIGRATION",
        _consumer_types,
        "'openstack resource provider allocation show' shows each",
        needs="consumer types",
    ),
)
