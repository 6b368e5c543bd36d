# SPDX-License-Identifier: Apache-2.0
"""Random input never causes a server error, and the next request is served.

``pytest --long tests/fuzz`` runs for minutes.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from benchmarks import cloud
from osc_placement import server
from tests.support.fuzz import mutate, wire
from tests.support.sequences import generate

#: Seconds of processor time that any request may take here.
MAX_SECONDS = 2.0
MAX_BODY = 1 << 20
ALIVE = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
HEAD = "Host: a\r\nX-Auth-Token: admin\r\nX-Roles: admin,service\r\n"
PATHS = (
    *("/resource_providers", "/allocation_candidates", "/traits", "/usages", "/resource_classes"),
    *(f"/resource_providers/{mutate.UUID}", f"/allocations/{mutate.UUID}", "/"),
)
LISTED = ("/resource_providers", "/traits", "/resource_classes", "/usages?project_id=a")
BODIES = (
    *("POST /resource_providers", f"PUT /resource_providers/{mutate.UUID}/inventories"),
    *(f"PUT /resource_providers/{mutate.UUID}/traits", f"PUT /allocations/{mutate.UUID}"),
    *(f"PUT /resource_providers/{mutate.UUID}/aggregates", "POST /allocations", "POST /reshaper"),
    *("POST /resource_classes", f"PUT /resource_providers/{mutate.UUID}"),
)

keys = st.sampled_from(
    (
        *("name", "uuid", "parent_provider_uuid", "inventories", "resource_provider_generation"),
        *("allocations", "project_id", "user_id", "consumer_generation", "consumer_type", "VCPU"),
        *(
            "resources",
            "traits",
            "aggregates",
            "total",
            "allocation_ratio",
            "mappings",
            mutate.UUID,
        ),
    )
)

#: A failed run prints its seed, so that it can be repeated.
SEEDS = st.integers(0, 1 << 32)

#: Strings, with unpaired surrogates now and then.
texts = st.text() | st.sampled_from(("\ud800", "a\udfff"))

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.just(mutate.UUID),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(keys | st.text(), inner, max_size=5)
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def target() -> Iterator[wire.Target]:
    with wire.Target() as found:
        yield found


@pytest.fixture
def examples(request: pytest.FixtureRequest) -> int:
    """The factor by which ``--long`` runs more examples."""
    return 40 if request.config.getoption("--long") else 1


def check_lists(target: wire.Target) -> None:
    """Lists of everything: they fail if a record cannot be encoded."""
    for path in LISTED:
        head = f"GET {path} HTTP/1.1\r\n{HEAD}OpenStack-API-Version: placement 1.39\r\n\r\n"
        assert target.send(head.encode()) == [200]


def run(examples: int, check: object) -> None:
    """Run a property without a database of examples."""
    hypothesis.settings(
        max_examples=examples,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )(check)()  # type: ignore[operator]


def test_mutated_requests_between_valid_ones(target: wire.Target, examples: int) -> None:
    answered: set[int] = set()

    @hypothesis.given(SEEDS)
    def check(seed: int) -> None:
        chance = random.Random(seed)
        target.reset()
        with target.app.repository.read() as base:
            generator = generate.Generator(0, base)
        generator.random = chance
        mutator = mutate.Mutator(chance)
        for _ in range(60):
            answered.update(target.send(mutator.raw(generator.next())))

        check_lists(target)

    run(60 * examples, check)
    assert target.send(ALIVE) == [200]
    assert answered >= {200, 201, 204, 400, 404, 409}


def test_any_query(target: wire.Target, examples: int) -> None:
    values = st.sampled_from(mutate.TEXTS) | st.text(max_size=20)
    pairs = st.lists(st.tuples(st.sampled_from(mutate.KEYS), values), max_size=8)

    @hypothesis.given(st.sampled_from(PATHS), pairs, st.integers(0, 39))
    def check(path: str, pairs: list[tuple[str, str]], minor: int) -> None:
        query = "&".join(f"{mutate.quote(key)}={mutate.quote(value)}" for key, value in pairs)
        version = f"OpenStack-API-Version: placement 1.{minor}\r\n"
        raw = f"GET {path}?{query} HTTP/1.1\r\n{HEAD}{version}\r\n".encode()
        assert target.send(raw)

    run(300 * examples, check)


def test_any_header(target: wire.Target, examples: int) -> None:
    values = st.sampled_from(mutate.HEADER_VALUES) | st.text(max_size=20)
    headers = st.lists(st.tuples(st.sampled_from(mutate.HEADERS), values), max_size=6)

    @hypothesis.given(st.sampled_from(PATHS), headers)
    def check(path: str, headers: list[tuple[str, str]]) -> None:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        target.send(f"GET {path} HTTP/1.1\r\n{HEAD}{lines}\r\n".encode("utf-8", "surrogatepass"))

    run(300 * examples, check)
    assert target.send(ALIVE) == [200]


def test_any_json(target: wire.Target, examples: int) -> None:
    names = st.fixed_dictionaries({"name": texts}, optional={"uuid": st.just(mutate.UUID)})

    @hypothesis.given(st.sampled_from(BODIES), json_values | names, st.integers(0, 39))
    def check(call: str, document: object, minor: int) -> None:
        body = json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")
        head = f"{call} HTTP/1.1\r\n{HEAD}OpenStack-API-Version: placement 1.{minor}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        (status,) = target.send(head.encode() + body)
        assert status >= 200
        check_lists(target)

    run(400 * examples, check)


def test_any_bytes(target: wire.Target, examples: int) -> None:
    @hypothesis.given(st.binary(max_size=200), st.booleans())
    def check(raw: bytes, as_body: bool) -> None:
        if as_body:
            head = f"POST /resource_providers HTTP/1.1\r\n{HEAD}Content-Type: application/json\r\n"
            raw = f"{head}Content-Length: {len(raw)}\r\n\r\n".encode() + raw
        target.send(raw)

    run(300 * examples, check)
    assert target.send(ALIVE) == [200]


SHAPES: tuple[Callable[[Any, int], Any], ...] = (
    lambda value, size: [value] * size,
    lambda value, size: {str(number): value for number in range(size)},
    lambda value, size: {"traits": [value] * size, "resource_provider_generation": 0},
    lambda value, size: {mutate.UUID: {"allocations": [value] * size}},
    lambda value, size: {"name": str(value) * size},
    lambda value, size: {
        "allocations": {},
        "inventories": dict.fromkeys(map(str, range(size)), value),
    },
)


def test_large_bodies_are_cheap(target: wire.Target, examples: int) -> None:
    shapes = st.tuples(st.sampled_from(SHAPES), json_values, st.integers(1, 200_000))

    @hypothesis.given(st.sampled_from(BODIES), shapes)
    def check(call: str, drawn: tuple[Callable[[Any, int], Any], Any, int]) -> None:
        shape, value, size = drawn
        body = json.dumps(shape(value, size)).encode()[:MAX_BODY]
        head = f"{call} HTTP/1.1\r\n{HEAD}OpenStack-API-Version: placement 1.39\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        started = time.process_time()
        target.send(head.encode() + body)
        assert time.process_time() - started < MAX_SECONDS / 2

    run(100 * examples, check)
    assert target.send(ALIVE) == [200]


@pytest.mark.parametrize("devices", [1, 20, 100])
def test_hundreds_of_groups_are_decided_in_time(devices: int, examples: int) -> None:
    limits = server.Limits(0.5, 1_000_000)
    target = wire.Target(load=cloud.wide_host(devices, 12), request_limits=limits).start()

    @hypothesis.given(SEEDS, st.sampled_from(("none", "isolate")))
    def check(seed: int, policy: str) -> None:
        chance = random.Random(seed)
        largest = chance.randint(1, 7)
        amounts = [
            chance.randint(1, largest) for _ in range(chance.choice((10, devices, 100, 400)))
        ]
        groups = "".join(f"&resources{n}=PCI_DEVICE:{each}" for n, each in enumerate(amounts, 1))
        limit = chance.choice((1, 9_999))
        path = f"/allocation_candidates?group_policy={policy}&limit={limit}{groups}"
        version = "OpenStack-API-Version: placement 1.39\r\n"
        started = time.process_time()
        (status,) = target.send(f"GET {path} HTTP/1.1\r\n{HEAD}{version}\r\n".encode())
        assert status in (200, 400)
        assert time.process_time() - started < MAX_SECONDS

    try:
        run(25 * examples, check)
    finally:
        target.stop()
