# SPDX-License-Identifier: Apache-2.0
"""Create, save and restore the databases of the services; restore works while they run."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import sqlite3
from collections.abc import Iterator

from lab import place

#: service -> its databases
DATABASES = {
    "keystone": ("keystone",),
    "placement": ("placement",),
    "nova": ("nova_api", "nova_cell0", "nova_cell1"),
    "neutron": (),
}
#: service -> files that are saved with its databases
FILES = {"neutron": "neutron.json", "nova": "seed.json"}
EMPTY = "empty"
SEEDED = "seeded"


def is_made(lab: place.Place, service: str) -> bool:
    """Whether ``make`` was completed."""
    return lab.path("saved", EMPTY, f"{service}.made").exists()


def make(lab: place.Place, service: str) -> None:
    """Create the databases of a service again; the service must not run."""
    lab.path("db").mkdir(parents=True, exist_ok=True)
    for name in DATABASES[service]:
        for left in lab.path("db").glob(f"{name}.sqlite*"):
            left.unlink()
    {"keystone": _keystone, "placement": _placement, "nova": _nova}.get(service, _nothing)(lab)
    for name in DATABASES[service]:
        with contextlib.closing(sqlite3.connect(lab.database(name))) as connection:
            # In this mode readers do not block the writer.
            connection.execute("PRAGMA journal_mode=WAL")


def _keystone(lab: place.Place) -> None:
    manage = (lab.program("keystone-manage"), "--config-dir", str(lab.path("etc", "keystone")))
    owner = ("--keystone-user", str(os.getuid()), "--keystone-group", str(os.getgid()))
    lab.run(*manage, "db_sync")
    lab.run(*manage, "fernet_setup", *owner)
    lab.run(*manage, "credential_setup", *owner)
    endpoints = (
        f"--bootstrap-{kind}-url={lab.url('keystone', '/v3')}"
        for kind in ("public", "internal", "admin")
    )
    password = f"--bootstrap-password={place.PASSWORD}"
    region = f"--bootstrap-region-id={place.REGION}"
    lab.run(*manage, "bootstrap", "--bootstrap-service-name=keystone", password, region, *endpoints)


def _placement(lab: place.Place) -> None:
    manage = lab.program("placement-manage")
    lab.run(manage, "--config-dir", str(lab.path("etc", "placement")), "db", "sync")


def _nova(lab: place.Place) -> None:
    manage = (lab.program("nova-manage"), "--config-dir", str(lab.path("etc", "nova")))
    at = {name: f"sqlite:///{lab.database(name)}" for name in DATABASES["nova"]}
    lab.run(*manage, "api_db", "sync")
    lab.run(*manage, "cell_v2", "map_cell0", "--database_connection", at["nova_cell0"])
    # Of cell0, and of cell1, which is the database in nova.conf.
    lab.run(*manage, "db", "sync")
    cell = ("--name", "cell1", "--transport-url", "fake:/")
    connection = ("--database_connection", at["nova_cell1"])
    lab.run(*manage, "cell_v2", "create_cell", *cell, *connection)


def _nothing(lab: place.Place) -> None:
    """The substitute services have no database."""


def save(lab: place.Place, name: str, *services: str) -> None:
    """Save the state of services under a name; by default of all installed services."""
    folder = lab.path("saved", name)
    folder.mkdir(parents=True, exist_ok=True)
    for service in services or DATABASES:
        for database in DATABASES[service]:
            if lab.database(database).exists():
                target = folder / f"{database}.sqlite"
                target.unlink(missing_ok=True)
                _copy(lab.database(database), target)
        if service in FILES and lab.path(FILES[service]).exists():
            shutil.copy(lab.path(FILES[service]), folder)
    if name == EMPTY:
        for service in services:
            (folder / f"{service}.made").touch()


def reset(lab: place.Place, name: str, *services: str) -> None:
    """Restore a saved state; the services may run. Raises LabError for an unknown state."""
    folder = lab.path("saved", name)
    if not folder.is_dir():
        names = ", ".join(saved(lab)) or "none"
        raise place.LabError(f"no state is saved as {name}; saved states: {names}")
    for service in services or DATABASES:
        for database in DATABASES[service]:
            if (folder / f"{database}.sqlite").exists():
                _copy(folder / f"{database}.sqlite", lab.database(database))
        if service in FILES and (folder / FILES[service]).exists():
            unfinished = lab.path(f"{FILES[service]}.new")
            shutil.copy(folder / FILES[service], unfinished)
            unfinished.replace(lab.path(FILES[service]))


@contextlib.contextmanager
def transaction(lab: place.Place, name: str) -> Iterator[sqlite3.Connection]:
    """A transaction in a database that a service may have open."""
    path = lab.database(name)
    with contextlib.closing(sqlite3.connect(path, timeout=30)) as connection, connection:
        yield connection


def saved(lab: place.Place) -> list[str]:
    """The names of saved states."""
    folder = lab.path("saved")
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def _copy(source: pathlib.Path, target: pathlib.Path) -> None:
    """Replace the content of a database that other processes may have open."""
    with (
        contextlib.closing(sqlite3.connect(source, timeout=30)) as origin,
        contextlib.closing(sqlite3.connect(target, timeout=30)) as copy,
    ):
        origin.backup(copy)
