# SPDX-License-Identifier: Apache-2.0
"""A small cloud of the kit for tests of allocations, and its audit.

Hosts ``a``, ``b`` (with PCPU and a network card ``nic``) and ``c``; ``nfs`` shares disks with ``a``
and ``b``, and ``gone`` has no compute node. Nova's names of the hosts are ``nova-a``, ...
"""

from __future__ import annotations

import copy
import string
from collections.abc import Mapping
from typing import Any, Self

from osc_placement import testing
from osc_placement.testing import uuid_of
from osc_placement.workflows.repair.allocations import audit
from tests.support import plans
from tests.support.clouds import read

OFFERED = {"VCPU": 8, "MEMORY_MB": 8192, "DISK_GB": 100}
CPUS, DISK = {"VCPU": 1, "MEMORY_MB": 512}, {"DISK_GB": 10}
USES = {**CPUS, **DISK}
CONSUMERS = {uuid_of(name): name for name in string.ascii_lowercase}
Places = str | Mapping[str, Mapping[str, int]]
LONG_AGO, JUST_NOW = "2020-01-01T00:00:00Z", "2025-12-31T23:59:50Z"
SIZE = {"vcpus": 1, "ram": 512, "disk": 10}
IMAGE: dict[str, Any] = {"image": {"id": "an image", "properties": {}}}
#: Fields of servers: nova hides the image's properties; a flavor; a flavor with pinned CPUs.
HIDDEN: dict[str, Any] = {"image": {"id": "an image"}}
LARGE = {"vcpus": 2, "ram": 1024, "disk": 20}
PINNED: dict[str, Any] = {"extra_specs": {"hw:cpu_policy": "dedicated"}}
VOLUMES = {"os-extended-volumes:volumes_attached": [{"id": "a volume"}]}
DELETED = {"vm_state": "deleted", "status": "DELETED"}


class Small(testing.Cloud):
    """The cloud without servers."""

    def __init__(self, *traits: str) -> None:
        """``traits`` are those of ``gone``."""
        super().__init__("nova-{}")
        host: dict[str, Any] = {"traits": ["COMPUTE_NODE"], **OFFERED}
        self.compute("a", aggregates=["disks"], **host)
        self.compute("b", aggregates=["disks"], PCPU=8, **host)
        self.compute("c", aggregates=["disks of c"], **host)
        self.child("b", "nic", NET_BW_EGR_KILOBIT_PER_SEC=1000)
        self.sharing("nfs", "disks").host("gone", traits=traits, **OFFERED)

    def sharing(self, name: str, aggregate: str) -> Self:
        """A provider that shares disks with an aggregate."""
        traits = ["MISC_SHARES_VIA_AGGREGATE"]
        return self.host(name, traits=traits, aggregates=[aggregate], DISK_GB=1000)

    def instance(self, name: str = "s", /, node: str | None = "a", **fields: Any) -> Self:
        """A server that has not changed for long, with a flavor of ``USES``."""
        times = {"created": LONG_AGO, "updated": LONG_AGO}
        return super().instance(name, node, **{**SIZE, **IMAGE, **times, **fields})

    def move(self, kind: str, status: str, ends: str = "ab", **fields: Any) -> Self:
        """The migration ``m`` of ``s`` between two hosts, which has not changed for long."""
        names = {"name": fields.pop("name", "m"), "server": fields.pop("server", "s")}
        shown = {"migration_type": kind, "status": status, "updated_at": LONG_AGO, **fields}
        return self.migration(**names, source=ends[0], target=ends[1], **shown)

    def allocated(self, **consumers: Places) -> Self:
        """The allocations of consumers."""
        for name, places in consumers.items():
            if places:
                self.server(name, amounts(places))
        return self

    def server(
        self, name: str, allocations: Mapping[str, Mapping[str, int]], **fields: Any
    ) -> Self:
        """As of the kit; Placement has an inventory of each class that is allocated."""
        for provider, parts in allocations.items():
            offered = self._document["providers"][uuid_of(provider)]["inventories"]
            self.change(provider, **{item: 8 for item in parts if item not in offered})
        return super().server(name, allocations, **fields)

    def after(self, **consumers: Places) -> Self:
        """Another cloud, in which these consumers have other allocations."""
        other = copy.deepcopy(self)
        for name in consumers:
            other._document["consumers"].pop(uuid_of(name), None)
        return other.allocated(**consumers)


def amounts(places: Places) -> Mapping[str, Mapping[str, int]]:
    """Allocations; a text is ``USES`` on each of its providers."""
    return dict.fromkeys(places.split(), USES) if isinstance(places, str) else places


def vm(node: str | None = "a", **fields: Any) -> Small:
    """The cloud with the server ``s``."""
    return Small().instance("s", node, **fields)


def on_two_disks(**fields: Any) -> Small:
    """The server is on ``c``, and its disk on one of two sharing providers."""
    kit = vm("c", **fields).change("c", DISK_GB=None)
    return kit.sharing("nfs-1", "disks of c").sharing("nfs-2", "disks of c")


class Audited:
    """The findings about a cloud, except about the provider that is always stale."""

    def __init__(self, kit: testing.Cloud, **options: Any) -> None:
        _, self.snapshot, self.context = read.reading(kit, **options)
        findings = audit.find(self.snapshot, self.context)
        self.findings = [item for item in findings if item.subject.uuid != uuid_of("gone")]
        self.codes = [str(item.code) for item in self.findings]

    def repaired(self) -> dict[str, Any]:
        """``{consumer: its allocations after the repair}``, of consumers that change."""
        names = {**self.snapshot.provider_names, **CONSUMERS}
        changes = audit.plan_repair(self.snapshot, self.findings).changes
        return {names[item.subject.uuid]: plans.amounts(item, names) for item in changes}
