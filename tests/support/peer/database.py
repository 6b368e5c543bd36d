# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL and MariaDB servers for openstack-placement, from the Debian packages.

Each server has a temporary folder and listens on a socket in that folder only. It keeps its
default durability settings.
"""

from __future__ import annotations

import contextlib
import getpass
import importlib.util
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping

POSTGRESQL_PROGRAMS = pathlib.Path("/usr/lib/postgresql")
START_LIMIT = 300.0


class Missing(Exception):
    """A database server or its driver is not installed; the text names the package."""


@contextlib.contextmanager
def postgresql() -> Iterator[str]:
    """Run PostgreSQL; yields the SQLAlchemy URL of an empty database. Raises Missing."""
    paths = sorted(POSTGRESQL_PROGRAMS.glob("*/bin/pg_ctl"))
    if not paths:
        raise Missing("PostgreSQL is not installed: apt-get install postgresql")
    _require_driver("psycopg2", "psycopg2-binary")
    programs = paths[-1].parent
    with _folder("postgres") as folder:
        data = folder / "data"
        _run("postgres", programs / "initdb", "-D", data, "-A", "trust", "-U", "placement")
        options = f"-c listen_addresses= -c unix_socket_directories={folder}"
        control = (programs / "pg_ctl", "-D", data, "-w")
        _run("postgres", *control, "-l", folder / "log", "-o", options, "start")
        try:
            _run("postgres", programs / "createdb", "-h", folder, "-U", "placement", "placement")
            yield f"postgresql+psycopg2://placement@/placement?host={folder}"
        finally:
            _run("postgres", *control, "-m", "fast", "stop")


@contextlib.contextmanager
def mariadb() -> Iterator[str]:
    """Run MariaDB; yields the SQLAlchemy URL of an empty database. Raises Missing."""
    server = shutil.which("mariadbd", path="/usr/sbin:/usr/bin:/usr/libexec")
    if server is None:
        raise Missing("MariaDB is not installed: apt-get install mariadb-server")
    _require_driver("pymysql", "pymysql")
    with _folder("mysql") as folder:
        data, socket = folder / "data", folder / "mariadb.sock"
        plain = ("--no-defaults", f"--datadir={data}")
        _run(
            "mysql",
            "mariadb-install-db",
            *plain,
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        )
        user = ["--user=mysql"] if os.geteuid() == 0 else []
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [
                    server,
                    *plain,
                    *user,
                    f"--socket={socket}",
                    "--skip-networking",
                    f"--pid-file={folder}/pid",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            _create_database(process, socket, folder / "log")
            yield f"mysql+pymysql://root@/placement?unix_socket={socket}&charset=utf8mb4"
        finally:
            process.terminate()
            process.wait(START_LIMIT)


#: ``{name of the option --peer: what starts the database server}``
SERVERS: Mapping[str, Callable[[], contextlib.AbstractContextManager[str]]] = {
    "postgresql": postgresql,
    "mariadb": mariadb,
}


def _create_database(
    process: subprocess.Popen[bytes], socket: pathlib.Path, log: pathlib.Path
) -> None:
    """Wait until the server answers, and create an empty database on it."""
    import pymysql

    deadline = time.monotonic() + START_LIMIT
    while True:
        try:
            with (
                pymysql.connect(unix_socket=str(socket), user="root") as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute("CREATE DATABASE placement CHARACTER SET utf8mb4")
                return
        except pymysql.err.OperationalError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                text = log.read_text(errors="replace")[-1500:]
                raise RuntimeError(f"MariaDB did not start: {text}") from error
        time.sleep(0.05)


def _require_driver(module: str, package: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise Missing(f"the database driver is not installed: pip install {package}")


@contextlib.contextmanager
def _folder(user: str) -> Iterator[pathlib.Path]:
    """A temporary folder that belongs to the user of the database server."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix=user))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, user)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(user: str, *command: object) -> None:
    """Run a program as ``user`` if the caller is root. Raises RuntimeError with its output."""
    arguments = [str(argument) for argument in command]
    if getpass.getuser() == "root":
        arguments = ["runuser", "-u", user, "--", *arguments]
    ended = subprocess.run(
        arguments,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if ended.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: {ended.stdout.decode(errors='replace')}")
