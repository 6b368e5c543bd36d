"""Random input never causes a server error, and the next request is served.

``pytest --long tests/fuzz`` runs for minutes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.support.fuzz import mutate, wire
from tests.support.sequences import generate

ALIVE = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
HEAD = "Host: a\r\nX-Auth-Token: admin\r\nX-Roles: admin,service\r\n"
PATHS = (
    *("/resource_providers", "/allocation_candidates", "/traits", "/usages", "/resource_classes"),
    *(f"/resource_providers/{mutate.UUID}", f"/allocations/{mutate.UUID}", "/"),
)
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

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(mutate.UUID),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(keys | st.text(), inner, max_size=5)
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def target() -> Iterator[wire.Target]:
    found = wire.Target()
    yield found
    found.stop()


@pytest.fixture
def examples(request: pytest.FixtureRequest) -> int:
    """The factor by which ``--long`` runs more examples."""
    return 40 if request.config.getoption("--long") else 1


def run(examples: int, check: object) -> None:
    """Run a property without a database of examples."""
    hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )(check)()  # type: ignore[operator]


def test_mutated_requests_between_valid_ones(target: wire.Target, examples: int) -> None:
    answered: set[int] = set()

    @hypothesis.given(st.randoms(use_true_random=True))
    def check(chance: random.Random) -> None:
        target.reset()
        with target.app.repository.read() as base:
            generator = generate.Generator(0, base)
        generator.random = chance
        mutator = mutate.Mutator(chance)
        for _ in range(60):
            answered.update(target.send(mutator.raw(generator.next())))

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
    @hypothesis.given(st.sampled_from(BODIES), json_values, st.integers(0, 39))
    def check(call: str, document: object, minor: int) -> None:
        body = json.dumps(document).encode()
        head = f"{call} HTTP/1.1\r\n{HEAD}OpenStack-API-Version: placement 1.{minor}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        (status,) = target.send(head.encode() + body)
        assert status >= 200

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
