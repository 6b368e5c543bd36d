# SPDX-License-Identifier: Apache-2.0
"""Random values for requests: names, amounts, generations and parts of queries."""

from __future__ import annotations

import dataclasses
import json
import random
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
    """One request for both servers."""

    method: str
    path: str
    minor: int
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def sent_headers(self) -> dict[str, str]:
        """The headers with those of an admin; an empty value removes a header."""
        headers = {
            "x-auth-token": "admin",
            "x-roles": "admin,service",
            "openstack-api-version": f"placement 1.{self.minor}",
        }
        if self.body is not None:
            headers["content-type"] = "application/json"
        headers.update(self.headers)
        return {key: value for key, value in headers.items() if value}

    def __str__(self) -> str:
        shown = b"" if self.body is None else self.body
        more = "".join(f" {key}={value}" for key, value in self.headers)
        return f"{self.method} {self.path} @1.{self.minor}{more} {shown.decode(errors='replace')}"


def _uuids(kind: int, count: int) -> tuple[str, ...]:
    return tuple(f"{kind:08x}-0000-4000-8000-{number:012x}" for number in range(count))


class Values:
    """Random values; most of them name what ``base`` contains."""

    def __init__(self, seed: int, base: state.CloudState) -> None:
        self.random = random.Random(seed)
        self.base = base
        self.providers = _uuids(0xA0, 7)
        self.consumers = _uuids(0xC0, 6)
        self.aggregates = _uuids(0xE0, 4)
        self.unknown = _uuids(0xF0, 1)[0]

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
        record = self.base.providers.get(uuid)
        actual = record.generation if record else 0
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

    def amount(self) -> Any:
        return (
            self.pick(QUANTITIES)
            if self.chance(0.02)
            else self.random.choice((1, 1, 2, 2, 3, 4, 6))
        )

    def taken(self, consumer: str) -> dict[str, dict[str, Any]]:
        """The allocations of a claim: mostly of classes that the provider has."""
        is_known = consumer in self.base.consumers
        allocations: dict[str, dict[str, Any]] = {}
        for uuid in self.several(self.provider, 0 if self.chance(0.3) else 1, 3):
            # A claim on a missing provider creates a consumer in the real service: see the
            # Conformance page.
            if uuid not in self.base.providers and not is_known:
                continue
            offered = (
                tuple(self.base.providers[uuid].inventories) if uuid in self.base.providers else ()
            )
            names = (
                self.random.sample(offered, self.random.randint(1, len(offered))) if offered else []
            )
            if not names or self.chance(0.06):
                names = [*names, self.class_name()]
            allocations[uuid] = {name: self.amount() for name in names}
        return allocations

    def claim(self, consumer: str, minor: int) -> dict[str, Any]:
        allocations = self.taken(consumer)
        body: dict[str, Any] = {
            "allocations": {uuid: {"resources": amounts} for uuid, amounts in allocations.items()}
        }
        if minor < 12:
            body["allocations"] = [
                {"resource_provider": {"uuid": uuid}, "resources": amounts}
                for uuid, amounts in allocations.items()
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

    def usages(self) -> str:
        parts = [f"project_id={self.pick(('p1', 'p2', 'p3'))}"]
        if self.chance(0.4):
            parts.append(f"user_id={self.pick(('u1', 'u2', 'u3'))}")
        if self.chance(0.3):
            parts.append(f"consumer_type={self.pick(('all', 'unknown', 'INSTANCE', 'low'))}")
        if self.chance(0.05):
            parts.pop(0)
        return "/usages?" + "&".join(parts)
