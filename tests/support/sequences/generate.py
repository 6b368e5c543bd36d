# SPDX-License-Identifier: Apache-2.0
"""Random requests on a small state, so that they interact: valid, stale, malformed.

The generator reads the reference server's state to name existing records and to use current
generations most of the time. Both servers receive the same bytes.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from typing import Any

from osc_placement.engine import state
from tests.support.sequences.values import Request, Values


class Generator(Values):
    """Requests one after the other; ``base`` is the state that receives them."""

    def __init__(self, seed: int, base: state.CloudState) -> None:
        super().__init__(seed, base)
        self._makers: list[tuple[int, Callable[[], Request]]] = [
            (10, self.create_provider),
            (5, self.update_provider),
            (3, self.delete_provider),
            (6, self.list_providers),
            (12, self.replace_inventories),
            (5, self.add_inventory),
            (5, self.replace_inventory),
            (4, self.delete_inventory),
            (6, self.replace_aggregates),
            (8, self.replace_traits),
            (5, self.trait),
            (6, self.resource_class),
            (18, self.write_allocations),
            (9, self.write_many_allocations),
            (3, self.delete_allocations),
            (7, self.reshape),
            (16, self.look),
            (6, self.list_candidates),
            (3, self.odd),
        ]

    def next(self) -> Request:
        """A request of any kind."""
        weights, makers = zip(*self._makers, strict=True)
        return self.random.choices(makers, weights)[0]()

    # Parts

    # Providers

    def create_provider(self) -> Request:
        uuid = self.pick(self.providers)
        body: dict[str, Any] = {"name": f"name-{self.random.randint(0, 7)}", "uuid": uuid}
        minor = self.minor()
        if self.chance(0.4):
            body["parent_provider_uuid"] = self.pick((self.provider(), None))
        if self.chance(0.05):
            body[self.pick(("name", "uuid", "parent_provider_uuid", "x"))] = self.pick(
                ("", None, 7, "n" * 201, "Ünïcode ☃", uuid.upper(), uuid.replace("-", ""))
            )
        if isinstance(body.get("uuid"), str):
            return self.send("POST", "/resource_providers", body, minor)
        return self.look()

    def update_provider(self) -> Request:
        body: dict[str, Any] = {"name": f"name-{self.random.randint(0, 9)}"}
        if self.chance(0.6):
            body["parent_provider_uuid"] = self.pick((self.provider(), self.provider(), None))
        if self.chance(0.05):
            body[self.pick(("name", "uuid"))] = self.pick(("", 3, "x"))
        return self.send("PUT", f"/resource_providers/{self.provider()}", body)

    def delete_provider(self) -> Request:
        return self.send("DELETE", f"/resource_providers/{self.provider()}")

    def list_providers(self) -> Request:
        parts = []
        for key, share, maker in (
            ("name", 0.15, lambda: f"name-{self.random.randint(0, 7)}"),
            ("uuid", 0.1, self.provider),
            ("in_tree", 0.2, self.provider),
            ("member_of", 0.25, self.member_of),
            ("member_of", 0.1, self.member_of),
            ("resources", 0.3, self.resources),
            ("required", 0.25, self.required),
            ("required", 0.1, self.required),
        ):
            if self.chance(share):
                parts.append((key, maker()))
        if self.chance(0.03):
            parts.append(self.pick((("colour", "blue"), ("name", ""), ("uuid", "x"))))
        return self.send("GET", f"/resource_providers?{urllib.parse.urlencode(parts)}")

    # Inventories, aggregates, traits of a provider

    def replace_inventories(self) -> Request:
        uuid = self.provider()
        names = dict.fromkeys(self.several(self.class_name, 0, 4))
        body: dict[str, Any] = {
            "resource_provider_generation": self.generation(uuid),
            "inventories": {name: self.inventory() for name in names},
        }
        if self.chance(0.03):
            body.pop(self.pick(tuple(body)))
        return self.send("PUT", f"/resource_providers/{uuid}/inventories", body)

    def add_inventory(self) -> Request:
        body = {"resource_class": self.class_name(), **self.inventory()}
        return self.send("POST", f"/resource_providers/{self.provider()}/inventories", body)

    def replace_inventory(self) -> Request:
        uuid = self.provider()
        body = {"resource_provider_generation": self.generation(uuid), **self.inventory()}
        return self.send("PUT", f"/resource_providers/{uuid}/inventories/{self.class_name()}", body)

    def delete_inventory(self) -> Request:
        path = f"/resource_providers/{self.provider()}/inventories"
        return self.send("DELETE", path if self.chance(0.3) else f"{path}/{self.class_name()}")

    def replace_aggregates(self) -> Request:
        uuid, minor = self.provider(), self.minor()
        aggregates: Any = self.random.sample(self.aggregates, self.random.randint(0, 3))
        if self.chance(0.05):
            aggregates = self.pick((["x"], aggregates * 2, "x", [aggregates]))
        body = aggregates
        if (minor >= 19) != self.chance(0.04):
            generation = self.generation(uuid)
            body = {"aggregates": aggregates, "resource_provider_generation": generation}
        return self.send("PUT", f"/resource_providers/{uuid}/aggregates", body, minor)

    def replace_traits(self) -> Request:
        uuid = self.provider()
        path = f"/resource_providers/{uuid}/traits"
        if self.chance(0.1):
            return self.send("DELETE", path)
        body: dict[str, Any] = {
            "traits": self.several(self.trait_name, 0, 3),
            "resource_provider_generation": self.generation(uuid),
        }
        return self.send("PUT", path, body)

    # Traits and classes

    def trait(self) -> Request:
        if self.chance(0.25):
            query = self.pick(
                (
                    "name=startswith:CUSTOM_",
                    "name=in:CUSTOM_RACK,CUSTOM_BLUE,HW_NUMA_ROOT,NOPE",
                    "associated=true",
                    "associated=maybe",
                    "name=CUSTOM",
                    "name=startswith:HW_NUMA&associated=false",
                    "colour=blue",
                )
            )
            return self.send("GET", f"/traits?{query}")
        return self.send(self.pick(("GET", "PUT", "PUT", "DELETE")), f"/traits/{self.trait_name()}")

    def resource_class(self) -> Request:
        name, minor = self.class_name(), self.minor()
        kind = self.random.randint(0, 4)
        if kind == 0:
            return self.send("POST", "/resource_classes", {"name": name}, minor)
        if kind == 1:
            body = {"name": self.class_name()} if minor < 7 else None
            return self.send("PUT", f"/resource_classes/{name}", body, minor)
        if kind == 2:
            return self.send("DELETE", f"/resource_classes/{name}", None, minor)
        if kind == 3:
            return self.send("GET", f"/resource_classes/{name}", None, minor)
        return self.send("PUT", f"/resource_classes/{name}", None, max(minor, 7))

    # Allocations

    def write_allocations(self) -> Request:
        consumer, minor = self.pick(self.consumers), self.minor()
        return self.send("PUT", f"/allocations/{consumer}", self.claim(consumer, minor), minor)

    def write_many_allocations(self) -> Request:
        minor = max(13, self.minor())
        chosen = self.random.sample(self.consumers, self.random.randint(1, 3))
        body = {consumer: self.claim(consumer, minor) for consumer in chosen}
        return self.send("POST", "/allocations", body, minor)

    def delete_allocations(self) -> Request:
        return self.send("DELETE", f"/allocations/{self.pick(self.consumers)}")

    def reshape(self) -> Request:
        minor = max(30, self.minor())
        inventories = {}
        for uuid in self.several(self.provider, 1, 2):
            found = self.base.providers.get(uuid)
            kept = (
                {name: item.as_dict() for name, item in found.inventories.items()} if found else {}
            )
            for name in self.several(self.class_name, 0, 2):
                kept[name] = self.inventory()
            if kept and self.chance(0.3):
                kept.pop(self.pick(tuple(kept)))
            inventories[uuid] = {
                "resource_provider_generation": self.generation(uuid),
                "inventories": kept,
            }
        chosen = self.random.sample(self.consumers, self.random.randint(0, 2))
        body = {
            "inventories": inventories,
            "allocations": {consumer: self.claim(consumer, minor) for consumer in chosen},
        }
        return self.send("POST", "/reshaper", body, minor)

    # Looking

    def look(self) -> Request:
        uuid = self.provider()
        path = self.pick(
            (
                f"/resource_providers/{uuid}",
                f"/resource_providers/{uuid}/inventories",
                f"/resource_providers/{uuid}/inventories/{self.class_name()}",
                f"/resource_providers/{uuid}/usages",
                f"/resource_providers/{uuid}/aggregates",
                f"/resource_providers/{uuid}/traits",
                f"/resource_providers/{uuid}/allocations",
                f"/allocations/{self.pick(self.consumers)}",
                f"/allocations/{self.pick(self.consumers)}",
                "/resource_classes",
                self.usages(),
            )
        )
        return self.send("GET", path)

    def list_candidates(self) -> Request:
        parts = [("resources", self.resources())]
        for key, share, maker in (
            ("required", 0.3, self.required),
            ("member_of", 0.3, self.member_of),
            ("in_tree", 0.15, self.provider),
            ("root_required", 0.1, self.required),
        ):
            if self.chance(share):
                parts.append((key, maker()))
        if self.chance(0.04):
            parts.append(self.pick((("limit", "0"), ("group_policy", "x"), ("same_subtree", "_A"))))
        return self.send("GET", f"/allocation_candidates?{urllib.parse.urlencode(parts)}")

    # Oddities of HTTP

    def odd(self) -> Request:
        uuid = self.provider()
        path = self.pick(
            (f"/resource_providers/{uuid}", "/resource_providers", "/traits", "/nope", "/")
        )
        headers = self.pick(
            (
                (("accept", "text/html"),),
                (("accept", "text/plain"),),
                (("content-type", "text/plain"),),
                (("x-roles", "member"),),
                (("x-auth-token", ""),),
                (
                    (
                        "openstack-api-version",
                        self.pick(("placement 1.99", "placement x", "compute 2.1")),
                    ),
                ),
            )
        )
        method = self.pick(("GET", "POST", "PUT", "PATCH", "OPTIONS"))
        body = self.pick((None, b"{", b"[]", b'{"name": "x"'))
        return Request(method, path, self.minor(), body, headers)
