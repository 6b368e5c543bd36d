"""A lab's life: up, seeded, reset, down."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import sys
import time
from collections.abc import Iterator, Sequence

from tests.support.lab import configure, database, identity, install, place, process

#: What ``purge`` leaves: the environment, which depends on nothing that could be stale.
_KEPT = ("venv", "lock")


def up(lab: place.Place, asked: Sequence[str] = (), workers: int = 1) -> list[str]:
    """Install, configure, make and start what is missing; the names of those started.

    ``asked`` are services, all if there are none; what they need comes with them.
    """
    services = place.needed(asked)
    with _alone(lab):
        lab.write("port", str(lab.first_port))
        with _told("packages are installed"):
            install.install(lab, services)
        made = [name for name in services if not database.is_made(lab, name)]
        started = []
        for name in made:
            with _told(f"{name} is made"):
                process.stop(lab, [name])
                configure.configure(lab, name)
                database.make(lab, name)
                # Placement writes its resource classes and traits when it starts.
                started += process.start(lab, [name], workers)
                if name == "keystone":
                    identity.fill(lab)
                database.save(lab, database.EMPTY, name)
        with _told("all answer"):
            started += process.start(lab, services, workers)
    return started


def provide(lab: place.Place) -> None:
    """Install all services' code, and start nothing."""
    with _alone(lab), _told("packages are installed"):
        install.install(lab, place.needed())


def seed(
    lab: place.Place, hosts: int, servers: int, kinds: str = "all", state: str = database.SEEDED
) -> None:
    """Fill nova, neutron and placement anew, and save that state under a name.

    ``kinds`` is ``all`` or ``ordinary``: without the servers of which something is special.
    """
    with _alone(lab):
        database.reset(lab, database.EMPTY)
        with _told("seeded"):
            words = (str(lab.folder), str(lab.first_port), str(hosts), str(servers), kinds)
            program = lab.program("python")
            lab.run(
                program,
                "-m",
                "tests.support.lab.seed",
                *words,
                log="seed.log",
                PYTHONPATH=str(place.ROOT),
            )
        database.save(lab, state)
        lab.write(f"saved/{state}/seeded-by", _seeding())


def is_seeded(lab: place.Place, state: str = database.SEEDED) -> bool:
    """Whether ``seed`` came to its end, as the seed stands in the checkout now."""
    mark = lab.path("saved", state, "seeded-by")
    return mark.exists() and mark.read_text() == _seeding()


def _seeding() -> str:
    """A digest of what seeds."""
    digest = hashlib.sha256()
    for path in sorted((place.HERE / "seed").glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def down(lab: place.Place, services: Sequence[str] = (), purge: bool = False) -> None:
    """End what runs; ``purge`` removes databases and configuration too."""
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
def _alone(lab: place.Place) -> Iterator[None]:
    """One process at a time makes a lab; a second one waits and finds it made."""
    lab.folder.mkdir(parents=True, exist_ok=True)
    with lab.path("lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    seconds = time.monotonic() - began
    if seconds > 0.5:
        print(f"lab: {what} ({seconds:.1f} s)", file=sys.stderr, flush=True)
