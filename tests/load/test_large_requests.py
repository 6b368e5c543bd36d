# SPDX-License-Identifier: Apache-2.0
"""Single large requests: other clients wait at most a second, and memory stays limited.

A wait is measured by what the server computes during it: the machine may have other work.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import pathlib
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks import served
from osc_placement.server import context
from tests.support.load.expensive import DEVICES, devices, packing

HEADERS = {"x-auth-token": "admin", "openstack-api-version": "placement 1.39"}
#: Seconds of the server's CPU that any other client may wait.
MAX_WAIT = 1.0
#: MiB that a request may take; the process itself takes about 40.
MEMORY = 256 + 64


def serving(
    document: dict[str, Any], folder: pathlib.Path
) -> contextlib.AbstractContextManager[served.Served]:
    """A server process with the document."""
    file = folder / "state.json"
    file.write_text(json.dumps(document))
    return served.serving(served.ours("--load", str(file)), folder / "server")


def send(port: int, method: str, path: str, body: bytes | None = None) -> int:
    """The status of a request."""
    headers = dict(HEADERS)
    if body is not None:
        headers["content-type"] = "application/json"
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    client.request(method, path, body, headers)
    response = client.getresponse()
    response.read()
    client.close()
    return response.status


def claims(number: int) -> bytes:
    entry = {"allocations": {}, "project_id": "p", "user_id": "u"}
    entry |= {"consumer_generation": None, "consumer_type": "X"}
    return json.dumps({str(uuid.uuid4()): entry for _ in range(number)}).encode()


LARGE: dict[str, Callable[[], tuple[str, str, bytes | None, int]]] = {
    "a long search": lambda: ("GET", packing()[1], None, 400),
    "many large candidates": lambda: (
        *("GET", devices(*[1] * DEVICES, policy="isolate") + "&limit=199999"),
        *(None, 400),
    ),
    "many groups": lambda: ("GET", devices(*[1] * 1000) + "&limit=100", None, 200),
    "an invalid body": lambda: (
        *("POST", "/resource_providers", b"[" + b"1," * (8_000_000) + b"1]"),
        400,
    ),
    "a body of many strings": lambda: (
        *("POST", "/resource_providers", json.dumps(["é𝄞"] * 250_000).encode()),
        400,
    ),
    "many claims": lambda: (
        *("POST", "/allocations", claims(context.MAX_VALUES // 8)),
        204,
    ),
}


@pytest.mark.parametrize("shape", LARGE)
def test_a_large_request_delays_no_other_client(shape: str, tmp_path: pathlib.Path) -> None:
    document, _ = packing()
    if shape == "many groups":
        for provider in document["providers"].values():
            provider["inventories"] = {"PCI_DEVICE": {"total": 20}}
    method, path, body, status = LARGE[shape]()
    with serving(document, tmp_path) as service:
        port, statuses = service.port, list[int]()
        large = threading.Thread(target=lambda: statuses.append(send(port, method, path, body)))
        large.start()
        waits = []
        while large.is_alive():
            for other, target in (
                ("GET", "/resource_providers?name=a"),
                ("PUT", "/traits/CUSTOM_A"),
            ):
                before = service.cpu()
                send(port, other, target)
                waits.append(service.cpu() - before)
        assert statuses == [status]
        assert max(waits) < MAX_WAIT
        assert service.memory() < MEMORY
