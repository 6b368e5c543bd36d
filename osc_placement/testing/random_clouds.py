# SPDX-License-Identifier: Apache-2.0
"""Small random clouds, dense enough that rules interact, and the smallest part that still fails."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any, Literal

from osc_placement.model import inventory
from osc_placement.testing.cloud import Cloud, uuid_of

#: What the providers of ``trees`` have some of.
CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_X")
TRAITS = ("CUSTOM_T1", "CUSTOM_T2", "CUSTOM_T3", "HW_NUMA_ROOT")
AGGREGATES = ("agg0", "agg1", "agg2")
SHARES = "MISC_SHARES_VIA_AGGREGATE"
_DOWN, _FORCED, _DISABLED = {"state": "down"}, {"forced_down": True}, {"status": "disabled"}
_SERVICES = (_DOWN, _FORCED, _DOWN | _FORCED, _DISABLED, _DISABLED | _DOWN)
_MOVES = ("live-migration", "migration", "evacuation")
_STATUSES = ("accepted", "running", "finished", "done", "error", "completed")
Shape = Literal["trees", "flat", "pools"]


def random_cloud(draw: random.Random, shape: Shape = "trees", *, small: bool = False) -> Cloud:
    """A random cloud with both halves; ``draw`` makes all choices.

    ``trees`` are up to four trees of providers with unusual inventories, some of which share;
    ``flat`` are hosts with VCPU, ``pools`` hosts whose disks are in shared pools. ``small`` trees
    have little capacity and no servers. Nova's half is not in all parts as Placement's.
    """
    made = _RandomCloud(draw, small)
    made.add_trees() if shape == "trees" else made.add_hosts(shape == "pools")
    made.add_nova()
    return made.cloud


class _RandomCloud:
    def __init__(self, draw: random.Random, small: bool) -> None:
        self.draw, self.small, self.cloud = draw, small, Cloud("nova-{}")
        self.is_drawn: Callable[[float], bool] = lambda share: draw.random() < share
        self.hosts: list[str] = []
        self.servers: dict[str, dict[str, Any]] = {}

    def add_trees(self) -> None:
        self.cloud.parts["custom_traits"] += TRAITS[:3]
        self.cloud.parts["custom_resource_classes"] += CLASSES[3:]
        plain = self.is_drawn(0.5)
        for number in self.draw.sample(range(10), self.draw.randint(1, 4)):
            shares = bool(self.hosts) and self.is_drawn(0.4)
            tree = [f"p{number}"]
            self._add_provider(tree[0], None, shares, plain)
            self.hosts += tree
            children = self.draw.choice((0, 0, 1, 2, 3, 4))
            for child in range(children if not shares or self.is_drawn(0.1) else 0):
                parent = self.draw.choice(tree)
                tree.append(f"{parent}.{child}")
                self._add_provider(tree[-1], parent, self.is_drawn(0.04), plain)

    def _add_provider(self, name: str, parent: str | None, shares: bool, plain: bool) -> None:
        """Add a provider, and perhaps a server with some of its classes."""
        classes = [key for key in CLASSES if self.is_drawn(0.35 if shares else 0.5)]
        offers = {key: self._offer(plain) for key in classes}
        traits = [trait for trait in TRAITS if self.is_drawn(0.25)] + [SHARES] * shares
        near = [key for key in AGGREGATES if self.is_drawn(0.5 if shares else 0.25)]
        self.cloud.host(name, parent=parent, traits=traits, aggregates=near, **offers)
        amounts = {key: self.draw.randint(1, 4) for key in classes if self.is_drawn(0.25)}
        for key, offer in ((key, inventory.Inventory(**offers[key])) for key in [*amounts]):
            if not (offer.suits_units(amounts[key]) and offer.has_room(0, amounts[key])):
                del amounts[key]
        if amounts and not self.small:
            self.servers[f"s{len(self.servers)}"] = {name: amounts}

    def _offer(self, plain: bool) -> dict[str, Any]:
        """An inventory; a plain one has room for most requests, so that other rules decide."""
        choice = self.draw.choice
        total = choice((2, 4, 4, 8, 8, 16))
        most, step = choice((total, total, 2, 3, 1000)), choice((1, 1, 1, 1, 2))
        units: dict[str, Any] = {"max_unit": most, "step_size": step}
        if not (self.small or plain):
            units["reserved"] = choice((0, 0, 0, 0, 1, total))
            units["min_unit"] = choice((1, 1, 1, 1, 2))
            units["allocation_ratio"] = choice((1.0, 1.0, 1.5, 0.5, 4.0))
        total = choice((1, 2, 3, 4)) if self.small else total + 4 * plain
        return {"total": total, **({} if plain else units)}

    def add_hosts(self, with_pools: bool) -> None:
        """Add hosts, with pools each in one or two of three, and servers where they fit."""
        draw = self.draw
        left = {f"pool{number}": draw.randint(4, 7) for number in range(3 * with_pools)}
        pools, places = [*left], []
        for pool in pools:
            self.cloud.host(pool, DISK_GB=left[pool], aggregates=[pool], traits=[SHARES])
        names = [f"h{number}" for number in range(10)]
        self.hosts = draw.sample(names, draw.randint(3 - with_pools, 5 + with_pools))
        for host in self.hosts:
            near = draw.sample(pools, draw.randint(1, 2)) if pools else []
            left[host] = draw.randint(2, 4 if pools else 7)
            self.cloud.host(host, VCPU=left[host], aggregates=near)
            places += [{host: "VCPU", pool: "DISK_GB"} for pool in near] or [{host: "VCPU"}]
        most = 1 if pools else draw.choice((1, 2, 4))
        for number in range(draw.randint(2 if pools else 4, 7)):
            size = {"VCPU": draw.randint(1, most), "DISK_GB": draw.randint(1, 3)}
            fits = [it for it in places if all(left[key] >= size[it[key]] for key in it)]
            for key, name in draw.choice(fits).items() if fits else ():
                left[key] -= size[name]
                self.servers.setdefault(f"s{number}", {})[key] = {name: size[name]}

    def add_nova(self) -> None:
        """Add nova's half: some servers, others on other hosts, and some that Placement lacks."""
        draw, cloud = self.draw, self.cloud
        for host in self.hosts:
            self._add_node(host)
        for name, allocations in self.servers.items():
            cloud.server(name, allocations, project=draw.choice("pq"))
        gone = [name for name in self.servers if self.is_drawn(0.3)]
        for name in (*self.servers, "x0", "x1", "x2"):
            if name not in gone:
                self._add_instance(name, self.servers.get(name, {"": {"VCPU": 3}}), gone)
        for name in AGGREGATES:
            cloud.aggregate(name, draw.sample(self.hosts, min(2, len(self.hosts))))
        for number in range(4):
            size = {key: draw.randint(1, 4) for key in ("vcpus", "ram", "disk")}
            specs = draw.choice(({}, {}, {"trait:CUSTOM_T1": "required"}))
            cloud.flavor(f"f{number}", **size, extra_specs=specs)
        cloud.cell_down(*(host for host in self.hosts if self.is_drawn(0.08)))

    def _add_node(self, host: str) -> None:
        """Add a node, perhaps in a state in which nova places no server on it."""
        fault = self.draw.choice((*_SERVICES, "no service", "no node", *[{}] * 7))
        own = {"id": uuid_of(f"not {host}")} if fault == "no node" else {}
        self.cloud.node(host, service=fault if isinstance(fault, dict) else {}, **own)
        if fault == "no service":
            self.cloud.parts["services"].pop()

    def _add_instance(self, name: str, allocations: dict[str, Any], holders: list[str]) -> None:
        """Add nova's server, perhaps where it has no allocations, perhaps with a migration."""
        draw, roots = self.draw, {key.split(".")[0] for key in allocations}
        own = [host for host in self.hosts if host in roots]
        host = draw.choice(own if own and self.is_drawn(0.7) else self.hosts)
        amounts = dict(pair for part in allocations.values() for pair in part.items())
        size = {"vcpus": amounts.pop("VCPU", 0), "ram": amounts.pop("MEMORY_MB", 0)}
        size["disk"] = amounts.pop("DISK_GB", 0)
        specs = {f"resources:{key}": str(amount) for key, amount in amounts.items()}
        self.cloud.instance(name, host, project=draw.choice("pq"), extra_specs=specs, **size)
        if self.is_drawn(0.2):
            holder = holders.pop() if holders else f"move of {name}"
            state = {"migration_type": draw.choice(_MOVES), "status": draw.choice(_STATUSES)}
            self.cloud.migration(holder, name, draw.choice(self.hosts), host, **state)


def shrink(cloud: Cloud, fails: Callable[[Cloud], bool]) -> Cloud:
    """The smallest part of a cloud for which ``fails`` is still true.

    Providers, consumers, objects of nova, inventories, traits and aggregates are left out one by
    one, with what needs them, until none of them can be left out.
    """
    at = needed = 0
    while needed < len(paths := sorted(_paths(cloud.parts), key=len)):
        smaller = copy.deepcopy(cloud)
        _leave_out(smaller.parts, *paths[at % len(paths)])
        is_needed = not fails(smaller)
        cloud = cloud if is_needed else smaller
        at, needed = at + is_needed, needed + 1 if is_needed else 0
    return cloud


def _paths(holder: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    for key in holder:
        if len(path) in (1, 3):
            yield (*path, key)
        if isinstance(holder, dict) and isinstance(holder[key], dict | list):
            yield from _paths(holder[key], *path, key)


def _leave_out(parts: Any, *path: Any) -> None:
    """Remove a part, the children of a provider, and allocations without an inventory."""
    holder = parts
    for key in path[:-1]:
        holder = holder[key]
    holder.pop(path[-1]) if isinstance(holder, dict) else holder.remove(path[-1])
    providers, consumers = parts["providers"], parts["consumers"]
    while lost := [key for key in providers if providers[key]["parent"] not in (None, *providers)]:
        providers.pop(lost[0])
    offered = {key: providers[key]["inventories"].keys() for key in providers}
    for uuid, consumer in [*consumers.items()]:
        places = consumer["allocations"]
        for key in [key for key in places if places[key].keys() - offered.get(key, set())]:
            del places[key]
        if not places:
            del consumers[uuid]
