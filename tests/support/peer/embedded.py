# SPDX-License-Identifier: Apache-2.0
"""The reference server for tests, on a port, in a thread of this process."""

from __future__ import annotations

import contextlib
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from osc_placement.server import options, run

#: The options for the configurations of PLACEMENT_FIXTURE, see tests/support/peer/placement.py.
OPTIONS: dict[str, list[str]] = {
    "default": ["--legacy-rbac"],
    "legacy-rbac": ["--legacy-rbac"],
    "secure-rbac": [],
    "open-policy": [
        "--legacy-rbac",
        "--policy-file",
        str(pathlib.Path(__file__).with_name("open-policy.yaml")),
    ],
    "breadth-first": [
        "--legacy-rbac",
        "--max-allocation-candidates",
        "5",
        "--allocation-candidates-generation-strategy",
        "breadth-first",
    ],
    "cors": ["--legacy-rbac", "--cors-allowed-origin", "http://valid.example.com"],
}


@contextlib.contextmanager
def running(fixture: str) -> Iterator[str]:
    """The URL of an empty server with one of the configurations, during the block."""
    with (
        contextlib.closing(options.create(options.parse(OPTIONS[fixture]))) as app,
        serving(app, run.THREADS) as service,
    ):
        yield service.url


@contextlib.contextmanager
def serving(app: Callable[..., Any], threads: int = 1) -> Iterator[run.HttpServer]:
    """A server of an application on a free port, during the block."""
    service = run.HttpServer(app, "127.0.0.1", 0, threads)
    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        yield service
    finally:
        service.stop()
        thread.join()
