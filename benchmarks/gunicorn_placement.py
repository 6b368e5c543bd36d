# SPDX-License-Identifier: Apache-2.0
"""openstack-placement in several gunicorn workers, on a database with the rows of a cloud."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import pathlib
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import psutil

from benchmarks import placement_rows
from tests.support.clouds import large
from tests.support.peer import database, process

WORKERS = 4

CONFIGURATION = """\
[DEFAULT]
default_log_levels = placement=ERROR,oslo=ERROR,sqlalchemy=ERROR,alembic=ERROR
[api]
auth_strategy = noauth2
[placement_database]
connection = {database}
sync_on_startup = True
"""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_START_LIMIT = 60.0


@dataclasses.dataclass
class Service:
    """A running service: its URL, its database, and what it has done."""

    url: str
    tables: placement_rows.Tables
    log: pathlib.Path
    process: psutil.Process
    _position: int = 0

    def requests(self) -> collections.Counter[str]:
        """``{"METHOD /path/{}": count}`` since the last call of a method."""
        return self.traffic()[0]

    def traffic(self) -> tuple[collections.Counter[str], int]:
        """``requests``, and the bytes of the bodies of the answers."""
        with self.log.open(encoding="utf-8") as log:
            log.seek(self._position)
            lines = [line.split(" ", 1) for line in log.read().splitlines()]
            self._position = log.tell()
        requests = collections.Counter(_UUID.sub("{}", line) for _, line in lines)
        return requests, sum(int(size) for size, _ in lines)

    def cpu(self) -> float:
        """Seconds of user and system time of the workers."""
        workers = self.process.children(recursive=True)
        times = [worker.cpu_times() for worker in (self.process, *workers)]
        return sum(each.user + each.system for each in times)


@contextlib.contextmanager
def serving(peer: str, cloud: large.LargeCloud, folder: pathlib.Path) -> Iterator[Service]:
    """Serve the cloud from ``postgresql`` or ``mariadb``.

    Raises database.Missing if its packages are not installed.
    """
    with database.SERVERS[peer]() as url:
        (folder / "placement.conf").write_text(CONFIGURATION.format(database=url))
        with _workers(folder, 1) as service_url:
            # It creates the tables, the standard classes and the standard traits. On MariaDB
            # several workers disturb one another.
            urllib.request.urlopen(service_url).close()
        tables = placement_rows.Tables(url)
        placement_rows.write(tables, cloud.document())
        with _workers(folder, WORKERS) as service_url:
            log = folder / "access.log"
            running = psutil.Process(int((folder / "gunicorn.pid").read_text()))
            service = Service(service_url, tables, log, running)
            service.requests()
            yield service


@contextlib.contextmanager
def _workers(folder: pathlib.Path, workers: int) -> Iterator[str]:
    port = process.free_port()
    command = [sys.executable, "-m", "gunicorn", "placement.wsgi:init_application()"]
    command += ["--bind", f"127.0.0.1:{port}", "--workers", str(workers)]
    command += ["--worker-class", "gthread", "--threads", "2", "--timeout", "600"]
    command += [
        "--access-logfile",
        str(folder / "access.log"),
        "--access-logformat",
        "%(B)s %(m)s %(U)s",
    ]
    command += ["--pid", str(folder / "gunicorn.pid"), "--log-level", "warning"]
    environment = {"OS_PLACEMENT_CONFIG_DIR": str(folder), "PATH": "/usr/bin:/bin"}
    with (folder / "gunicorn.log").open("ab") as log:
        started = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        yield _ready(f"http://127.0.0.1:{port}", started, folder / "gunicorn.log")
    finally:
        started.terminate()
        started.wait(30)


def _ready(url: str, started: subprocess.Popen[bytes], log: pathlib.Path) -> str:
    deadline = time.monotonic() + _START_LIMIT
    while True:
        with contextlib.suppress(OSError), urllib.request.urlopen(url):
            return url
        if started.poll() is not None or time.monotonic() > deadline:
            lines = log.read_text(errors="replace").splitlines()[-5:]
            raise RuntimeError("\n".join(["gunicorn did not start", *lines]))
        time.sleep(0.2)
