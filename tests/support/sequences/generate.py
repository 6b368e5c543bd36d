"""Random requests over a small world, so that they meet: valid, stale, malformed.

The generator looks into the embedded server's state to name what exists and to give the
right generations most of the time; both servers get the same bytes.
"""

from __future__ import annotations

import dataclasses
import json
import random
import urllib.parse
from collections.abc import Callable
from typing import Any

from osc_placement.engine import state

STANDARD_CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB", "VGPU")
CUSTOM_CLASSES = ("CUSTOM_GOLD", "CUSTOM_FPGA")
BAD_CLASSES = ("NOPE", "custom_low", "CUSTOM_")
STANDARD_TRAITS = ("HW_CPU_X86_AVX2", "STORAGE_DISK_SSD", "HW_NUMA_ROOT", "COMPUTE_NODE")
CUSTOM_TRAITS = ("CUSTOM_RACK", "CUSTOM_BLUE")
BAD_TRAITS = ("NO_SUCH_TRAIT", "CUSTOM_lower", "")
#: Asking for sharing providers belongs to the candidates' own comparison.
QUANTITIES = (1, 1, 1, 2, 2, 3, 4, 5, 8, 10, 0, -1, 2**31 - 1, 2**31, "x", None, 1.5, True)


@dataclasses.dataclass(frozen=True)
class Request:
    """One request, as it goes to both servers."""

    method: str
    path: str
    minor: int
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        shown = b"" if self.body is None else self.body
        more = "".join(f" {key}={value}" for key, value in self.headers)
        return f"{self.method} {self.path} @1.{self.minor}{more} {shown.decode(errors='replace')}"


def _uuids(kind: int, count: int) -> tuple[str, ...]:
    return tuple(f"{kind:08x}-0000-4000-8000-{number:012x}" for number in range(count))


class Generator:
    """Requests one after the other; ``base`` is the state they will meet."""

    def __init__(self, seed: int, base: state.State) -> None:
        self.random = random.Random(seed)
        self.base = base
        self.providers = _uuids(0xA0, 7)
        self.consumers = _uuids(0xC0, 6)
        self.aggregates = _uuids(0xE0, 4)
        self.unknown = _uuids(0xF0, 1)[0]
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

    def minor(self) -> int:
        edges = (0, 4, 5, 7, 8, 11, 12, 13, 14, 19, 20, 22, 23, 26, 27, 28, 30, 34, 36, 37, 38, 39)
        if self.chance(0.5):
            return 39
        return self.random.choice(edges) if self.chance(0.6) else self.random.randint(0, 39)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def pick(self, *groups: tuple[Any, ...]) -> Any:
        return self.random.choice([member for group in groups for member in group])

    def provider(self) -> str:
        if self.chance(0.04):
            return self.unknown
        existing = tuple(self.base.providers)
        return (
            self.pick(existing or self.providers) if self.chance(0.8) else self.pick(self.providers)
        )

    def generation(self, uuid: str) -> Any:
        found = self.base.providers.get(uuid)
        actual = found.generation if found else 0
        if self.chance(0.88):
            return actual
        return self.pick((actual + 1, actual - 1, 0, "1", None))

    def class_name(self) -> str:
        if self.chance(0.04):
            return self.pick(BAD_CLASSES)
        return self.pick(STANDARD_CLASSES, STANDARD_CLASSES, CUSTOM_CLASSES)

    def trait_name(self) -> str:
        if self.chance(0.04):
            return self.pick(BAD_TRAITS)
        return self.pick(STANDARD_TRAITS, CUSTOM_TRAITS)

    def several(self, maker: Callable[[], Any], least: int, most: int) -> list[Any]:
        return [maker() for _ in range(self.random.randint(least, most))]

    def send(self, method: str, path: str, body: Any = None, minor: int | None = None) -> Request:
        encoded = None if body is None else json.dumps(body).encode()
        return Request(method, path, self.minor() if minor is None else minor, encoded)

    def inventory(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"total": self.pick((4, 8, 10, 16, 100))}
        for field, values in (
            ("reserved", (0, 1, 2, 4, 20)),
            ("min_unit", (1, 1, 2)),
            ("max_unit", (2, 8, 100)),
            ("step_size", (1, 1, 2, 3)),
            ("allocation_ratio", (1.0, 2, 0.5, 16.0, 0.1, -1)),
        ):
            if self.chance(0.25):
                fields[field] = self.pick(values)
        if self.chance(0.05):
            fields[self.pick(tuple(fields))] = self.pick(QUANTITIES)
        if self.chance(0.02):
            fields["colour"] = "blue"
        return fields

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

    def resources(self) -> str:
        parts = [
            f"{name}:{self.random.choice((1, 1, 2, 4, 10))}"
            for name in dict.fromkeys(self.several(self.class_name, 1, 2))
        ]
        if self.chance(0.04):
            parts.append(self.pick(("", "VCPU", "VCPU:0", "VCPU:x", "VCPU:1:1", "VCPU:-2")))
        return ",".join(parts)

    def required(self) -> str:
        if self.chance(0.15):
            return "in:" + ",".join(self.several(self.trait_name, 1, 3))
        return ",".join(
            ("!" if self.chance(0.25) else "") + name
            for name in dict.fromkeys(self.several(self.trait_name, 1, 2))
        )

    def member_of(self) -> str:
        prefix = self.pick(("", "", "in:", "!", "!in:"))
        most = 2 if "in:" in prefix else 1
        if self.chance(0.05):
            return prefix + self.pick(("", "x", "in:", f"{self.aggregates[0]},x"))
        return prefix + ",".join(self.random.sample(self.aggregates, self.random.randint(1, most)))

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

    def amount(self) -> Any:
        return (
            self.pick(QUANTITIES)
            if self.chance(0.02)
            else self.random.choice((1, 1, 2, 2, 3, 4, 6))
        )

    def taken(self, consumer: str) -> dict[str, dict[str, Any]]:
        """What a claim names: mostly classes that the provider offers."""
        known = consumer in self.base.consumers
        wanted: dict[str, dict[str, Any]] = {}
        for uuid in self.several(self.provider, 0 if self.chance(0.3) else 1, 3):
            # A failure over a missing provider leaves a trace of a new consumer in the
            # real service, and none in ours: see the documentation of the server.
            if uuid not in self.base.providers and not known:
                continue
            offered = (
                tuple(self.base.providers[uuid].inventories) if uuid in self.base.providers else ()
            )
            names = (
                self.random.sample(offered, self.random.randint(1, len(offered))) if offered else []
            )
            if not names or self.chance(0.06):
                names = [*names, self.class_name()]
            wanted[uuid] = {name: self.amount() for name in names}
        return wanted

    def claim(self, consumer: str, minor: int) -> dict[str, Any]:
        wanted = self.taken(consumer)
        body: dict[str, Any] = {
            "allocations": {uuid: {"resources": found} for uuid, found in wanted.items()}
        }
        if minor < 12:
            body["allocations"] = [
                {"resource_provider": {"uuid": uuid}, "resources": found}
                for uuid, found in wanted.items()
            ]
        if minor >= 8:
            body["project_id"] = self.pick(("p1", "p2"))
            body["user_id"] = self.pick(("u1", "u2"))
        if minor >= 28:
            found = self.base.consumers.get(consumer)
            actual = found.generation if found else None
            body["consumer_generation"] = (
                actual if self.chance(0.92) else self.pick((None, 0, 1, 5))
            )
        if minor >= 34 and self.chance(0.2):
            body["mappings"] = self.pick(({"": [self.unknown]}, {"_A": []}, {}, {"x": ["y"]}))
        if minor >= 38:
            body["consumer_type"] = self.pick(("INSTANCE", "INSTANCE", "MIGRATION"))
        if self.chance(0.02):
            body.pop(self.pick(tuple(body)))
        if self.chance(0.02):
            body[self.pick(("project_id", "consumer_type", "colour"))] = self.pick(("", "low", 3))
        return body

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

    def usages(self) -> str:
        parts = [f"project_id={self.pick(('p1', 'p2', 'p3'))}"]
        if self.chance(0.4):
            parts.append(f"user_id={self.pick(('u1', 'u2', 'u3'))}")
        if self.chance(0.3):
            parts.append(f"consumer_type={self.pick(('all', 'unknown', 'INSTANCE', 'low'))}")
        if self.chance(0.05):
            parts.pop(0)
        return "/usages?" + "&".join(parts)

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
