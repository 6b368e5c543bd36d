# SPDX-License-Identifier: Apache-2.0
"""openstack-placement in several gunicorn workers, on a database with the rows of a cloud."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import pathlib
import re
import shlex
import sys
from collections.abc import Iterator

import psutil

from benchmarks import placement_rows
from tests.support.clouds import large
from tests.support.peer import database, placement, process

WORKERS = 4

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


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
        placement.configure(folder, "default", url)
        with _workers(folder, 1):
            # It creates the tables, the standard classes and the standard traits. On MariaDB
            # several workers disturb one another.
            pass
        tables = placement_rows.Tables(url)
        placement_rows.write(tables, cloud.document())
        with _workers(folder, WORKERS) as service_url:
            log = folder / "access.log"
            running = psutil.Process(int((folder / "gunicorn.pid").read_text()))
            service = Service(service_url, tables, log, running)
            service.requests()
            yield service


def _workers(folder: pathlib.Path, workers: int) -> contextlib.AbstractContextManager[str]:
    command = [sys.executable, "-m", "gunicorn", "placement.wsgi:init_application()"]
    command += ["--workers", str(workers)]
    command += ["--worker-class", "gthread", "--threads", "2", "--timeout", "600"]
    command += [
        "--access-logfile",
        str(folder / "access.log"),
        "--access-logformat",
        "%(B)s %(m)s %(U)s",
    ]
    command += ["--pid", str(folder / "gunicorn.pid"), "--log-level", "warning"]
    on_port = ["sh", "-c", f"exec {shlex.join(command)} --bind 127.0.0.1:$0"]
    return process.running(on_port, folder, environment={"OS_PLACEMENT_CONFIG_DIR": str(folder)})
