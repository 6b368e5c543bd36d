# SPDX-License-Identifier: Apache-2.0
"""Who else uses a database: the connections that its server lists, or processes with its file open.

The user guide says what this cannot detect.
"""

from __future__ import annotations

import collections
import contextlib
import os
import pathlib
from collections.abc import Iterator, Mapping

import sqlalchemy

from osc_placement.offline import configuration

_PROCESSES = pathlib.Path("/proc")

#: How many users a message lists.
_MOST_LISTED = 5

#: ``{SQLAlchemy's name of a database server: a query for the other connections to a database}``.
#: A user without further rights sees all connections of PostgreSQL, and its own ones of MariaDB.
#: The maintenance processes of PostgreSQL have no user.
_CONNECTIONS: Mapping[str, str] = {
    "postgresql": (
        "SELECT usename, coalesce(host(client_addr), 'a local socket') FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid() AND usename IS NOT NULL"
    ),
    "mysql": (
        "SELECT user, substring_index(host, ':', 1) FROM information_schema.processlist"
        " WHERE db = database() AND id <> connection_id()"
    ),
}


def find(configured: configuration.Configuration) -> tuple[str, ...]:
    """The other users of a database, as text for a message; empty for none.

    Errors: PlacementError for a database that cannot be read.
    """
    with configured.connection() as connection:
        name = (
            "mysql"
            if configured.url.get_backend_name() == "mariadb"
            else configured.url.get_backend_name()
        )
        if name == "sqlite":
            users = list(_processes(configured.sqlite_file))
        elif name in _CONNECTIONS:
            users = list(_connections(connection, _CONNECTIONS[name]))
        else:
            users = [f"unknown users: the connections to {name} cannot be listed"]
    listed = users[:_MOST_LISTED]
    more = len(users) - len(listed)
    return (*listed, *([f"{more} more"] if more else []))


def _connections(connection: sqlalchemy.Connection, query: str) -> Iterator[str]:
    connections = collections.Counter(
        (str(user), str(host)) for user, host in connection.execute(sqlalchemy.text(query))
    )
    for (user, host), count in sorted(connections.items()):
        text = "1 connection" if count == 1 else f"{count} connections"
        yield f"{text} of {user} from {host}"


def _processes(file: pathlib.Path) -> Iterator[str]:
    """The processes that have the file open, of those that this process may examine."""
    sought = str(file.resolve())
    for folder in sorted(_PROCESSES.glob("[0-9]*")):
        # The process has ended, or belongs to another user.
        with contextlib.suppress(OSError):
            if folder.name != str(os.getpid()) and sought in _opened(folder):
                name = (folder / "comm").read_text().strip()
                yield f"process {folder.name} ({name})"


def _opened(folder: pathlib.Path) -> Iterator[str]:
    """The files that a process has open; it may close one meanwhile."""
    for link in (folder / "fd").iterdir():
        with contextlib.suppress(OSError):
            yield os.readlink(link)
