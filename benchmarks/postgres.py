"""A PostgreSQL of our own while a block runs, from the Debian packages; nothing of it stays."""

from __future__ import annotations

import contextlib
import getpass
import importlib.util
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

PROGRAMS = pathlib.Path("/usr/lib/postgresql")

#: PostgreSQL does not run as root: this user comes with the package.
USER = "postgres"


class Missing(Exception):
    """PostgreSQL or its driver is not installed; the text says what is missing."""


@contextlib.contextmanager
def running() -> Iterator[str]:
    """The URL of an empty database, for SQLAlchemy. Raises Missing.

    It listens on a socket in its own folder and nowhere else, and waits for its disk as
    PostgreSQL does by default.
    """
    programs = _programs()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="postgres"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, USER)
        data = folder / "data"
        _call(programs / "initdb", "-D", data, "-A", "trust", "-U", "placement")
        options = f"-c listen_addresses= -c unix_socket_directories={folder}"
        _call(programs / "pg_ctl", "-D", data, "-l", folder / "log", "-w", "-o", options, "start")
        try:
            _call(programs / "createdb", "-h", folder, "-U", "placement", "placement")
            yield f"postgresql+psycopg2://placement@/placement?host={folder}"
        finally:
            _call(programs / "pg_ctl", "-D", data, "-m", "fast", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> pathlib.Path:
    found = sorted(PROGRAMS.glob("*/bin/pg_ctl"))
    if not found:
        raise Missing("no PostgreSQL: apt-get install postgresql")
    if importlib.util.find_spec("psycopg2") is None:
        raise Missing("no driver for PostgreSQL: pip install psycopg2-binary")
    return found[-1].parent


def _call(*command: object) -> None:
    """Run a program of PostgreSQL as somebody who may. Raises RuntimeError with what it said."""
    words = [str(word) for word in command]
    if getpass.getuser() == "root":
        words = ["runuser", "-u", USER, "--", *words]
    ended = subprocess.run(
        words, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if ended.returncode:
        raise RuntimeError(f"{' '.join(words)}: {ended.stdout.decode(errors='replace')}")
