# SPDX-License-Identifier: Apache-2.0
"""The options of nova's scheduler that decide about hosts, and how a nova.conf sets them."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from osc_placement.engine import standard
from osc_placement.model import json_text
from osc_placement.model.name import CUSTOM_PREFIX
from osc_placement.nova import configuration, topology

_NOT_IN_A_NAME = re.compile("[^A-Z0-9_]+")


#: The filters that nova enables by default.
DEFAULT_FILTERS = (
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
)

#: Nova's default limit of the servers of a host, for the filters of this number.
DEFAULT_MAX_INSTANCES = 50


@dataclasses.dataclass(frozen=True, slots=True)
class PciAlias:
    """What nova requests from Placement for one device of a ``[pci]alias``.

    ``has_ids``: the alias has a vendor_id and a product_id; ``has_class``: a resource_class.
    ``is_live_migratable``: its devices can move with a running server. ``problem`` is what nova
    refuses in it.
    """

    resource_class: str
    traits: frozenset[str] = frozenset()
    has_ids: bool = True
    is_live_migratable: bool = False
    has_class: bool = False
    device_type: str | None = None
    numa_policy: str = "legacy"
    problem: str = ""


#: ``{name: the aliases of this name}``
PciAliases = Mapping[str, Sequence[PciAlias]]


def read_aliases(texts: Iterable[str]) -> PciAliases:
    """The PCI aliases of the JSON texts of ``[pci]alias``; one without a name has its text."""
    aliases: dict[str, list[PciAlias]] = collections.defaultdict(list)
    for text in texts:
        try:
            alias = json_text.parse(text)
        except ValueError as error:
            aliases[text].append(PciAlias("", problem=f"not JSON: {error}"))
            continue
        items = alias.items() if isinstance(alias, Mapping) else ()
        fields = {key: value for key, value in items if isinstance(value, str)}
        device = f"PCI_{fields.get('vendor_id')}_{fields.get('product_id')}"
        requested = fields.get("resource_class") or device
        names = filter(None, fields.get("traits", "").split(","))
        read = PciAlias(
            _standard_or_custom(requested, standard.RESOURCE_CLASSES),
            frozenset(_standard_or_custom(name, standard.traits()) for name in names),
            bool(fields.get("vendor_id") and fields.get("product_id")),
            topology.is_true(fields.get("live_migratable")),
            bool(fields.get("resource_class")),
            fields.get("device_type"),
            fields.get("numa_policy", "legacy"),
            _problem_of(alias),
        )
        aliases[fields.get("name", text)].append(read)
    return aliases


#: The keys of an alias, and the values that nova accepts.
_ALIAS_VALUES: Mapping[str, str] = {
    "name": "(?s).{1,256}",
    "vendor_id": "[0-9a-fA-F]{4}",
    "product_id": "[0-9a-fA-F]{4}",
    "device_type": "type-PCI|type-PF|type-VF",
    "numa_policy": "required|legacy|preferred|socket",
    "capability_type": "pci",
    "resource_class": "(?s).*",
    "traits": "(?s).*",
    "live_migratable": "(?i)0|1|f|false|n|no|off|on|t|true|y|yes",
}


def _problem_of(alias: Any) -> str:
    if not isinstance(alias, Mapping):
        return "not a JSON object"
    if "name" not in alias:
        return "it has no name"
    for key, value in alias.items():
        if key not in _ALIAS_VALUES:
            return f"nova does not know {key}"
        if not isinstance(value, str) or not re.fullmatch(_ALIAS_VALUES[key], value):
            return f"{key} {value!r} is not a value that nova accepts"
    return ""


def alias_problems(aliases: PciAliases) -> Iterator[str]:
    """Why nova refuses each flavor with a PCI alias, whichever of them it requests."""
    for name, specs in aliases.items():
        yield from (f"alias {name}: {alias.problem}" for alias in specs if alias.problem)


def wrong_aliases(aliases: PciAliases, *, in_placement: bool) -> Iterator[str]:
    """Why nova refuses the aliases of a nova.conf from nova 31 on, whatever a flavor requests."""
    yield from alias_problems(aliases)
    for name, specs in aliases.items():
        if any(alias.problem for alias in specs):
            continue
        types = {alias.device_type for alias in specs}
        if len(specs) > 1 and None in types:
            yield f"alias {name} is set {len(specs)} times: each needs a device_type"
        elif len(types) > 1:
            named = ", ".join(sorted(map(str, types)))
            yield f"alias {name} is set {len(specs)} times: the device types differ ({named})"
        if len({alias.numa_policy for alias in specs}) > 1:
            yield f"alias {name} is set {len(specs)} times: the NUMA policies differ"
        if in_placement and len(specs) > 1:
            yield f"alias {name} is set {len(specs)} times: pci_in_placement allows one"
        if not all(alias.has_ids or (in_placement and alias.has_class) for alias in specs):
            yield f"alias {name} has no vendor_id and product_id"


def _standard_or_custom(text: str, names: Container[str]) -> str:
    """A standard name, or the normalized custom name."""
    normalized = _NOT_IN_A_NAME.sub("_", text.upper())
    if normalized in names or normalized.startswith(CUSTOM_PREFIX):
        return normalized
    return f"{CUSTOM_PREFIX}{normalized}"


@dataclasses.dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """The release of nova, and the options of ``[scheduler]``, with nova's defaults.

    Without a ``release`` the version of nova's API says it; without a nova it is the newest.

    ``owner``: nova requires the trait OWNER_NOVA, once every nova-compute sets it (nova 34); None
    if that is not known. Nova.conf has no option for it. ``aliases``, and ``enabled_filters`` and
    ``max_instances_per_host`` of ``[filter_scheduler]``, and ``allow_resize_to_same_host`` are None
    without a nova.conf. ``disable_fallback_pcpu_query`` is an option of ``[workarounds]``.
    """

    max_placement_results: int = 1000
    max_attempts: int = 3
    limit_tenants_to_placement_aggregate: bool = False
    placement_aggregate_required_for_tenants: bool = False
    query_placement_for_image_type_support: bool = False
    enable_isolated_aggregate_filtering: bool = False
    image_metadata_prefilter: bool = False
    query_placement_for_routed_network_aggregates: bool = False
    owner: bool | None = None
    release: int | None = None
    allow_resize_to_same_host: bool | None = None
    pci_in_placement: bool = False
    aliases: PciAliases | None = None
    enabled_filters: tuple[str, ...] | None = None
    max_instances_per_host: int | None = None
    image_properties_default_architecture: str | None = None
    aggregate_image_properties_isolation_namespace: str | None = None
    aggregate_image_properties_isolation_separator: str = "."
    isolated_hosts: frozenset[str] = frozenset()
    isolated_images: frozenset[str] = frozenset()
    restrict_isolated_hosts_to_isolated_images: bool = True
    disable_fallback_pcpu_query: bool = False


#: The request filters that nova.conf turns on or off.
FILTERS = (
    "limit_tenants_to_placement_aggregate",
    "placement_aggregate_required_for_tenants",
    "query_placement_for_image_type_support",
    "enable_isolated_aggregate_filtering",
    "image_metadata_prefilter",
    "query_placement_for_routed_network_aggregates",
)


#: The options of filters that are texts.
_TEXTS = (
    "image_properties_default_architecture",
    "aggregate_image_properties_isolation_namespace",
    "aggregate_image_properties_isolation_separator",
)


def read_nova_conf(
    path: pathlib.Path, base: SchedulerOptions, refused: list[str] | None = None
) -> SchedulerOptions:
    """``base`` with the options that a nova.conf sets; ``refused`` is that of ``configuration``.

    Errors: PlacementError names the file.
    """
    from oslo_config import cfg

    # Nova still reads the option under its former name.
    former = {"deprecated_name": "pci_alias", "deprecated_group": "DEFAULT"}
    sections: dict[str, list[cfg.Opt]] = {
        "scheduler": [
            cfg.IntOpt("max_placement_results", default=base.max_placement_results, min=1),
            cfg.IntOpt("max_attempts", default=base.max_attempts, min=1),
            *(cfg.BoolOpt(name, default=getattr(base, name)) for name in FILTERS),
        ],
        "filter_scheduler": [
            cfg.ListOpt("enabled_filters", default=list(DEFAULT_FILTERS)),
            cfg.BoolOpt("pci_in_placement", default=False),
            cfg.IntOpt("max_instances_per_host", default=DEFAULT_MAX_INSTANCES, min=1),
            *(cfg.StrOpt(name, default=getattr(base, name)) for name in _TEXTS),
            cfg.ListOpt("isolated_hosts", default=[]),
            cfg.ListOpt("isolated_images", default=[]),
            cfg.BoolOpt("restrict_isolated_hosts_to_isolated_images", default=True),
        ],
        "workarounds": [cfg.BoolOpt("disable_fallback_pcpu_query", default=False)],
        "pci": [cfg.MultiStrOpt("alias", default=[], **former)],
        "DEFAULT": [cfg.BoolOpt("allow_resize_to_same_host", default=False)],
    }
    values = configuration.read(path, sections, refused)
    values["aliases"] = read_aliases(values.pop("alias"))
    values["enabled_filters"] = tuple(values["enabled_filters"])
    values |= {name: frozenset(values[name]) for name in ("isolated_hosts", "isolated_images")}
    return dataclasses.replace(base, **values)
