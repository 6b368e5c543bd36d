"""The options of nova.conf for nova's scheduler: its request to Placement, and its filters."""

from __future__ import annotations

import dataclasses
import pathlib

from osc_placement import errors

_SECTION = "scheduler"
_FILTER_SECTION = "filter_scheduler"

#: The filters that nova enables by default.
DEFAULT_FILTERS = (
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
)


@dataclasses.dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """The options of ``[scheduler]``, with nova's defaults.

    ``owner``: nova requires the trait OWNER_NOVA, once every nova-compute sets it (nova 34);
    nova.conf has no option for it. ``enabled_filters`` are those of ``[filter_scheduler]``, None
    without a nova.conf.
    """

    max_placement_results: int = 1000
    limit_tenants_to_placement_aggregate: bool = False
    placement_aggregate_required_for_tenants: bool = False
    query_placement_for_image_type_support: bool = False
    enable_isolated_aggregate_filtering: bool = False
    image_metadata_prefilter: bool = False
    query_placement_for_routed_network_aggregates: bool = False
    owner: bool = False
    enabled_filters: tuple[str, ...] | None = None

    def optional(self) -> dict[str, bool]:
        """``{request filter that is off by default: whether it is on}``."""
        return {
            "tenant aggregates": self.limit_tenants_to_placement_aggregate,
            "image type support": self.query_placement_for_image_type_support,
            "isolated aggregates": self.enable_isolated_aggregate_filtering,
            "image metadata": self.image_metadata_prefilter,
            "routed networks": self.query_placement_for_routed_network_aggregates,
            "owner": self.owner,
        }


#: The request filters that nova.conf turns on or off.
FILTERS = tuple(
    field.name
    for field in dataclasses.fields(SchedulerOptions)
    if field.type == "bool" and field.name != "owner"
)


def read_nova_conf(path: pathlib.Path, base: SchedulerOptions) -> SchedulerOptions:
    """``base`` with the options that a nova.conf sets. Errors: PlacementError names the file."""
    from oslo_config import cfg

    conf = cfg.ConfigOpts()
    conf.register_opts(
        [
            cfg.IntOpt("max_placement_results", default=base.max_placement_results, min=1),
            *(cfg.BoolOpt(name, default=getattr(base, name)) for name in FILTERS),
        ],
        group=_SECTION,
    )
    enabled = cfg.ListOpt("enabled_filters", default=list(DEFAULT_FILTERS))
    conf.register_opts([enabled], group=_FILTER_SECTION)
    try:
        conf(args=[], project="nova", default_config_files=[str(path)], default_config_dirs=[])
        found = {
            name: getattr(conf[_SECTION], name) for name in ("max_placement_results", *FILTERS)
        }
    except (cfg.Error, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise errors.PlacementError(f"cannot read {path} as a nova.conf: {reason}") from error
    names = tuple(conf[_FILTER_SECTION].enabled_filters)
    return dataclasses.replace(base, **found, enabled_filters=names)
