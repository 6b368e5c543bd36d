# SPDX-License-Identifier: Apache-2.0
"""openstack-placement's WSGI application on the database of a configuration file."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import logging
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import alembic.script
from oslo_config import cfg
from oslo_db import exception
from placement import deploy, policy
from placement.db.sqlalchemy import migration

from osc_placement import errors
from osc_placement.offline import configuration, tables, users

#: A WSGI application without the resources of this package's own ones.
_Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Any]

RELEASE = importlib.metadata.version("openstack-placement")
#: The first release whose service has all standard traits of the os-traits that the client needs.
_ALL_TRAITS_SINCE = 16

#: Releases before 16 read an option that oslo.policy 6 does not have.
_LIBRARIES = (
    f"openstack-placement {RELEASE} does not start with the libraries that are installed"
    " ({error}): install 'oslo.policy<6'"
)

#: How many of the added names a note has.
_SHOWN = 5

#: The loggers of openstack-placement and of the libraries that it uses.
_SERVICE_LOGGERS = (
    "placement",
    "alembic",
    "oslo_concurrency",
    "oslo_config",
    "oslo_db",
    "oslo_policy",
    "sqlalchemy",
)


class OfflineApp:
    """The service's own application and code, in this process.

    Reads the configuration and looks for other users of the database; the first request loads
    the application, which adds nothing to the database. ``load_for_writing`` does.
    Errors: PlacementError for a configuration or a database that cannot be used. ``tables`` reads
    the state of one moment; nothing is written but over the API.
    """

    repository = None
    saved_cloud = None

    def __init__(self, file: str) -> None:
        _silence()
        self._configuration = configuration.Configuration(pathlib.Path(file).absolute())
        #: The file, its database without the password, and the release that decides.
        self.database = f"{self._configuration}, with the rules of openstack-placement {RELEASE}"
        #: The other users of the database.
        self.users = users.find(self._configuration)
        self.tables = tables.PlacementTables(self._configuration)
        # openstack-placement answers concurrent writers on SQLite with 500.
        self._turn: contextlib.AbstractContextManager[Any] = (
            threading.Lock() if self._configuration.is_sqlite else contextlib.nullcontext()
        )
        self._loading = threading.Lock()
        self._writes = False

    def load_for_writing(self) -> str:
        """Load the application; the note about what that added to the database, or nothing.

        As the service does when it starts, that adds missing standard traits and resource classes,
        unless ``users`` shows that a service runs, which has added its own, or the service is of an
        older release, which lacks some of them.
        """
        if self.users or int(RELEASE.partition(".")[0]) < _ALL_TRAITS_SINCE:
            return ""
        before = self._names()
        with self._loading:
            self._writes = True
            self.__dict__.pop("_application", None)
            self._application  # noqa: B018
        added = sorted(self._names() - before)
        if not added:
            return ""
        shown = ", ".join(added[:_SHOWN]) + (", ..." if len(added) > _SHOWN else "")
        return (
            f"Added to {self._configuration.name}, as the service does when it starts:"
            f" standard traits and resource classes ({len(added)}): {shown}"
        )

    def _names(self) -> frozenset[str]:
        """The names of all traits and resource classes; empty for a database without tables."""
        try:
            with self.tables.reading() as reading:
                return frozenset([*reading.traits, *reading.resource_classes])
        except errors.PlacementError:
            # Loading says what is wrong with the schema.
            return frozenset()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        with self._loading:
            application = self._application
        with self._turn:
            return application(environ, start_response)

    def close(self) -> None:
        """Close the connections to the database."""
        configuration.ENGINE.release()

    @functools.cached_property
    def _application(self) -> _Wsgi:
        configuration.ENGINE.configure(self._configuration)
        self._check_schema()
        options, load = self._configuration.options, deploy.loadapp
        try:
            if not self._writes:
                # As loadapp, without its writes to the database.
                policy.init(options)
                load = deploy.deploy
            loaded: _Wsgi = load(options)
        except exception.DBError as error:
            raise self._configuration.failure(str(error).partition("\n")[0]) from error
        except cfg.NoSuchOptError as error:
            raise self._configuration.failure(_LIBRARIES.format(error=error)) from error
        return loaded

    def _check_schema(self) -> None:
        """Refuse a database of another release of openstack-placement."""
        folder = pathlib.Path(migration.__file__).with_name("alembic")
        needed = alembic.script.ScriptDirectory(str(folder)).get_current_head()
        version = migration.version()
        if version == needed:
            return
        state = f"has the schema {version}" if version else "has no tables of Placement"
        raise self._configuration.failure(
            f"it {state}, and this openstack-placement needs {needed}: install the release of"
            f" the service, or run 'placement-manage --config-file {self._configuration.file}"
            " db sync' if this is the release that you upgrade to"
        )


def _silence() -> None:
    """Keep the log messages of the service and its libraries for ``--debug``.

    They are for the log file of a service: what concerns the command is in the response.
    """
    root = logging.getLogger()
    level = min((handler.level for handler in root.handlers), default=root.level)
    if level > logging.DEBUG:
        for name in _SERVICE_LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
