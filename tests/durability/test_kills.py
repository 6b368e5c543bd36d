# SPDX-License-Identifier: Apache-2.0
"""kill -9 at any moment: acknowledged writes are in the file, others are there as a whole or not at
all.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from osc_placement import server
from osc_placement.testing import cloud
from tests.load.test_load import HEADERS

#: The number of kills, without and with ``--long``.
KILLS, MANY_KILLS = 60, 1000
CLIENTS = 3
HOSTS = tuple(str(uuid.UUID(int=number + 1, version=4)) for number in range(4))


class ForkServer:
    """Starts servers on one database, one after the other."""

    def __init__(self, database: pathlib.Path) -> None:
        self._database = database
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.fork_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=pathlib.Path(__file__).parents[2],
        )

    @contextlib.contextmanager
    def server(self) -> Iterator[tuple[int, str]]:
        """A running server: its process id and URL."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{self._database}\n")
        self._process.stdin.flush()
        pid, url = self._process.stdout.readline().split()
        try:
            yield int(pid), url
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

    def close(self) -> None:
        self._process.communicate()


class Client(threading.Thread):
    """Writes as fast as it can and records the responses.

    ``acknowledged`` are the written consumers, ``{uuid: allocations}``; ``open`` is the last
    request without a response.
    """

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(daemon=True)
        self._random = random.Random(seed)
        self._address = urllib.parse.urlsplit(url)
        self.acknowledged: dict[str, dict[str, Any]] = {}
        self.open: dict[str, dict[str, Any]] = {}

    def run(self) -> None:
        connection = http.client.HTTPConnection(
            self._address.hostname or "", self._address.port, timeout=10
        )
        with contextlib.suppress(OSError, http.client.HTTPException):
            while True:
                self._write(connection)
        connection.close()

    def _write(self, connection: http.client.HTTPConnection) -> None:
        """One POST for two consumers: both are written, or neither."""
        self.open = {
            str(uuid.UUID(int=self._random.getrandbits(128), version=4)): {
                host: {"VCPU": 1, "MEMORY_MB": self._random.randint(1, 9)}
                for host in self._random.sample(HOSTS, 2)
            }
            for _ in range(2)
        }
        body = {
            consumer: {
                "allocations": {host: {"resources": found} for host, found in allocations.items()},
                "project_id": "p",
                "user_id": "u",
                "consumer_generation": None,
                "consumer_type": "INSTANCE",
            }
            for consumer, allocations in self.open.items()
        }
        connection.request("POST", "/allocations", json.dumps(body), HEADERS)
        response = connection.getresponse()
        response.read()
        assert response.status == 204
        self.acknowledged.update(self.open)
        self.open = {}


def prepare(database: pathlib.Path) -> None:
    inventories = {"VCPU": {"total": 2**31 - 1}, "MEMORY_MB": {"total": 2**31 - 1}}
    providers = {
        host: {"name": f"host-{number}", "inventories": inventories}
        for number, host in enumerate(HOSTS)
    }
    document = cloud.complete({"providers": providers})
    server.create_app(str(database), load=document).close()


@pytest.mark.timeout(1800)
def test_kills_lose_no_acknowledged_write(
    tmp_path: pathlib.Path, pytestconfig: pytest.Config
) -> None:
    kills = MANY_KILLS if pytestconfig.getoption("--long") else KILLS
    database = tmp_path / "placement.sqlite"
    prepare(database)
    fork_server = ForkServer(database)
    chance = random.Random(4)
    expected: dict[str, dict[str, Any]] = {}
    cut = 0
    for kill in range(kills):
        with fork_server.server() as (pid, url):
            clients = [Client(url, kill * CLIENTS + number) for number in range(CLIENTS)]
            for client in clients:
                client.start()
            wanted = chance.randint(0, 40)
            while (
                all(client.is_alive() for client in clients)
                and sum(len(client.acknowledged) for client in clients) < wanted
            ):
                time.sleep(chance.uniform(0, 0.002))
            os.kill(pid, signal.SIGKILL)
            for client in clients:
                client.join(120)
        app = server.create_app(str(database))
        document = app.export()
        app.close()
        kept = {uuid: entry["allocations"] for uuid, entry in document["consumers"].items()}
        for client in clients:
            expected.update(client.acknowledged)
            written = [consumer for consumer in client.open if consumer in kept]
            assert len(written) in (0, len(client.open)), "half of a request was kept"
            expected.update({consumer: client.open[consumer] for consumer in written})
            cut += bool(client.open)
        assert kept == expected
        check_generations(document)
    fork_server.close()
    assert expected
    assert cut > kills, "the kills hardly ever met a request"


def check_generations(document: dict[str, Any]) -> None:
    """A request of two consumers increases a provider's generation once."""
    touches = dict.fromkeys(HOSTS, 0)
    for entry in document["consumers"].values():
        for host in entry["allocations"]:
            touches[host] += 1
    for host, count in touches.items():
        generation = document["providers"][host]["generation"]
        assert count / 2 <= generation <= count
