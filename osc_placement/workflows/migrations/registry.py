"""The online data migrations, in the order in which they run.

To add one, write a function that yields slices and add an entry to MIGRATIONS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from osc_placement.workflows.allocations import heal, precondition
from osc_placement.workflows.allocations.heal_request import HealRequest
from osc_placement.workflows.batch import aggregate_ratios, display_heads
from osc_placement.workflows.migrations import consumers
from osc_placement.workflows.migrations.runner import Cursor, Migration, Services, Slice
from osc_placement.workflows.mirror import observe as mirror_observe


def _mirror(services: Services, _: str) -> Iterator[Slice]:
    """One slice, because the mirror always reads all host aggregates."""
    planned = mirror_observe.plan_mirror(
        services.client, services.cloud.nova, mirror_observe.MirrorRequest(), services.context
    ).planned
    yield Slice(Cursor.END, planned)


def _ratios(services: Services, _: str) -> Iterator[Slice]:
    """One slice, because a ratio depends on all host aggregates of a host."""
    planned = aggregate_ratios.plan_aggregate_ratios(
        services.client,
        services.cloud.nova,
        aggregate_ratios.AggregateRatioRequest(),
        services.context,
    )
    yield Slice(Cursor.END, planned)


def _head_traits(services: Services, _: str) -> Iterator[Slice]:
    yield Slice(Cursor.END, display_heads.plan_traits(services.client, services.context))


def _head_inventories(services: Services, _: str) -> Iterator[Slice]:
    """One slice, because the limit of removals compares it with the whole cloud."""
    yield Slice(Cursor.END, display_heads.plan_removal(services.client, services.context))


def _heal(services: Services, after: str) -> Iterator[Slice]:
    check = precondition.NovaPreconditions(services.cloud.nova)
    parts = heal.plan_missing(
        services.client,
        services.cloud.nova,
        HealRequest(),
        services.context,
        neutron=services.cloud.neutron,
        after=after,
    )
    for position, planned in parts:
        yield Slice(position, planned, check, services.cloud.neutron)


def _owners(services: Services, after: str) -> Iterator[Slice]:
    return _slices(services, consumers.plan_owners, after)


def _types(services: Services, after: str) -> Iterator[Slice]:
    return _slices(services, consumers.plan_types, after)


def _slices(
    services: Services, planned: Callable[..., consumers.Slices], after: str
) -> Iterator[Slice]:
    workers = services.context.workers
    for position, observed in planned(
        services.client, services.cloud.nova, after=after, workers=workers
    ):
        yield Slice(position, observed)


MIGRATIONS: Sequence[Migration] = (
    Migration(
        "mirror_host_aggregates",
        "Adds compute nodes to the placement aggregates that mirror their nova host aggregates",
        _mirror,
        "'openstack placement aggregate mirror --dry-run' shows them",
        needs="aggregate generation",
    ),
    Migration(
        "heal_allocations",
        "Creates missing allocations of servers, as nova would have created them",
        _heal,
        "'openstack placement allocation heal --dry-run' shows them",
        needs="consumer generation",
    ),
    Migration(
        "complete_consumers",
        "Sets project and user of nova's consumers that were written below API 1.8",
        _owners,
        "'openstack placement allocation audit' shows them",
        needs="consumer types",
    ),
    Migration(
        "set_consumer_types",
        "Sets the type of the consumers of nova's servers and migrations: INSTANCE, MIGRATION",
        _types,
        "'openstack resource provider allocation show' shows each",
        needs="consumer types",
        by_default=False,
    ),
    Migration(
        "import_aggregate_ratios",
        "Sets the allocation ratios of nova's host aggregates on the inventories of their hosts",
        _ratios,
        "'openstack placement aggregate ratios --dry-run' shows them",
        needs="resource classes",
        by_default=False,
    ),
    Migration(
        "add_display_head_traits",
        "Adds HW_GPU_MAX_DISPLAY_HEADS_* traits to providers with inventory of VGPU_DISPLAY_HEAD",
        _head_traits,
        "'openstack resource provider trait list' shows the traits of each",
        needs="provider required traits",
        by_default=False,
        reads_nova=False,
    ),
    Migration(
        "remove_display_head_inventories",
        "Removes inventories of VGPU_DISPLAY_HEAD with such a trait and without allocations",
        _head_inventories,
        "run add_display_head_traits before; 'openstack resource provider usage show' shows what"
        " is in use",
        needs="provider required traits",
        by_default=False,
        reads_nova=False,
    ),
)


def selected(names: Sequence[str]) -> list[Migration]:
    """The migrations with these names, or those that run by default, in their order."""
    return [item for item in MIGRATIONS if (item.name in names if names else item.by_default)]
