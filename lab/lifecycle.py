# SPDX-License-Identifier: Apache-2.0
"""Start, seed and stop a lab."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import sys
import time
from collections.abc import Iterator, Sequence

from lab import configure, database, identity, install, place, process

#: Files that ``purge`` keeps.
_KEPT = ("venv", "lock")


def up(lab: place.Place, requested: Sequence[str] = (), workers: int = 1) -> list[str]:
    """Install, configure and start services and their dependencies; by default all.

    Returns the names of the services that were started.
    """
    services = place.needed(requested)
    with _locked(lab):
        lab.write("port", str(lab.first_port))
        with _timed("packages installed"):
            install.install(lab, services)
        missing = [name for name in services if not database.is_made(lab, name)]
        started = []
        for name in missing:
            with _timed(f"{name} configured"):
                process.stop(lab, [name])
                configure.configure(lab, name)
                database.make(lab, name)
                # Placement writes its resource classes and traits when it starts.
                started += process.start(lab, [name], workers)
                if name == "keystone":
                    identity.fill(lab)
                database.save(lab, database.EMPTY, name)
        with _timed("all services up"):
            started += process.start(lab, services, workers)
    return started


def provide(lab: place.Place) -> None:
    """Install all services without starting them."""
    with _locked(lab), _timed("packages installed"):
        install.install(lab, place.needed())


def seed(
    lab: place.Place, hosts: int, servers: int, kinds: str = "all", state: str = database.SEEDED
) -> None:
    """Fill nova, neutron and placement from their empty states, and save the result.

    ``kinds`` is ``all``, or ``ordinary`` for ordinary servers only.
    """
    with _locked(lab):
        database.reset(lab, database.EMPTY)
        with _timed("seeded"):
            fill(lab, hosts, servers, kinds)
        database.save(lab, state)
        lab.write(f"saved/{state}/seeded-by", _seeding())


def fill(lab: place.Place, hosts: int, servers: int, kinds: str) -> None:
    """Fill the databases with the Python of their services."""
    arguments = (str(lab.folder), str(lab.first_port), str(hosts), str(servers), kinds)
    program = lab.program("python")
    lab.run(program, "-m", "lab.seed", *arguments, log="seed.log", PYTHONPATH=str(place.ROOT))


def is_seeded(lab: place.Place, state: str = database.SEEDED) -> bool:
    """Whether ``seed`` was completed with the seed code of the checkout."""
    mark = lab.path("saved", state, "seeded-by")
    return mark.exists() and mark.read_text() == _seeding()


def _seeding() -> str:
    """A digest of the seed code."""
    digest = hashlib.sha256()
    for path in sorted((place.HERE / "seed").glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def down(lab: place.Place, services: Sequence[str] = (), purge: bool = False) -> None:
    """Stop services; ``purge`` also removes databases and configuration."""
    process.stop(lab, services or place.needed())
    if not purge or not lab.folder.is_dir():
        return
    for path in lab.folder.iterdir():
        if path.name in _KEPT:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


@contextlib.contextmanager
def _locked(lab: place.Place) -> Iterator[None]:
    """Let only one process at a time change a lab."""
    lab.folder.mkdir(parents=True, exist_ok=True)
    with lab.path("lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _timed(what: str) -> Iterator[None]:
    start = time.monotonic()
    yield
    seconds = time.monotonic() - start
    if seconds > 0.5:
        print(f"lab: {what} ({seconds:.1f} s)", file=sys.stderr, flush=True)
