# SPDX-License-Identifier: Apache-2.0
"""The configuration of openstack-placement, read from its file, and its global database engine."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator

import sqlalchemy
import sqlalchemy.exc
from oslo_config import cfg
from placement import conf, db_api

from osc_placement import address, errors
from osc_placement.model import json_text

#: oslo.config's errors about a "$"; their texts have what follows it, such as part of a password.
_SUBSTITUTION = (cfg.NoSuchOptError, cfg.TemplateSubstitutionError)
_DOLLAR = 'has a "$" that names no option: write "$$" for a "$" of a password'


class Configuration:
    """The options of one configuration file; ``name`` says whose database it is, in messages.

    Reads the file and, as the service does for its own file, the folder ``<file>.d``.
    Errors: PlacementError for a file that cannot be read or has no valid database URL.
    """

    def __init__(self, file: pathlib.Path) -> None:
        self.file = file
        self.name = f"the database of {file}"
        self.options = _read(file)
        self.url = self._url()

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is an SQLite file."""
        return self.url.get_backend_name() == "sqlite"

    @property
    def sqlite_file(self) -> pathlib.Path:
        """The file of an SQLite database."""
        return pathlib.Path(self.url.database or "")

    def __str__(self) -> str:
        return f"{self.name}: {address.shown(self.url.render_as_string(hide_password=False))}"

    @contextlib.contextmanager
    def connection(self) -> Iterator[sqlalchemy.Connection]:
        """A connection of its own. Errors: PlacementError if the database does not accept it."""
        if self.is_sqlite and not self.sqlite_file.exists():
            raise self.failure("the file does not exist")
        try:
            engine = sqlalchemy.create_engine(self.url, poolclass=sqlalchemy.NullPool)
            with engine.connect() as connection:
                if self.is_sqlite:
                    # SQLite opens any file; the first read shows whether it is a database.
                    connection.execute(sqlalchemy.text("SELECT name FROM sqlite_master LIMIT 1"))
                yield connection
        except ImportError as error:
            raise self.failure(f"the database driver is not installed: {error}") from error
        except (sqlalchemy.exc.SQLAlchemyError, TypeError, ValueError) as error:
            # A driver raises the last two for a parameter that it does not know.
            raise self.failure(str(error).partition("\n")[0]) from error

    def failure(self, reason: str) -> errors.PlacementError:
        """An error about this database; a driver may quote parts of the URL in its reason."""
        query = self.url.normalized_query.values()
        secrets = {str(self.url.password or ""), *(text for texts in query for text in texts)}
        for secret in sorted(secrets, key=len, reverse=True):
            reason = reason.replace(secret, "***") if secret else reason
        return errors.PlacementError(f"{self}: {reason}")

    def _url(self) -> sqlalchemy.URL:
        # Neither error is quoted, nor kept as the cause: it has parts of the URL.
        try:
            return sqlalchemy.make_url(self.options.placement_database.connection)
        except _SUBSTITUTION:
            reason = _DOLLAR
        except (sqlalchemy.exc.ArgumentError, ValueError):
            reason = "is not a database URL"
        raise errors.PlacementError(f"{self.file}: [placement_database] connection {reason}")


def _read(file: pathlib.Path) -> cfg.ConfigOpts:
    folder = pathlib.Path(f"{file}.d")
    options = cfg.ConfigOpts()
    conf.register_opts(options)
    try:
        json_text.check_file(file)
        options(
            [],
            project="placement",
            default_config_files=[str(file)],
            default_config_dirs=[str(folder)] if folder.is_dir() else [],
        )
        # The file may name keystone, and may let the service change the schema when it starts.
        options.set_override("auth_strategy", "noauth2", group="api")
        options.set_override("sync_on_startup", False, group="placement_database")
    except _SUBSTITUTION:
        raise errors.PlacementError(f"{file}: a value {_DOLLAR}") from None
    except cfg.Error as error:
        raise errors.PlacementError(f"{file}: {error}") from error
    except json_text.NotJson as error:
        raise errors.PlacementError(str(error)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise errors.PlacementError(
            f"{file} cannot be read: {errors.file_reason(error)}"
        ) from error
    return options


class _Engine:
    """The database engine of openstack-placement, of which a process has one."""

    _url: sqlalchemy.URL | None = None

    def configure(self, configuration: Configuration) -> None:
        """Use a database. Errors: PlacementError if the process uses another one already."""
        if self._url is None:
            db_api.configure(configuration.options)
            self._url = configuration.url
        if self._url != configuration.url:
            raise configuration.failure(
                "this process uses another database of openstack-placement already: start a new"
                " process for each"
            )

    def release(self) -> None:
        """Close all connections; the next request opens new ones."""
        if self._url is not None:
            db_api.get_placement_engine().dispose()


ENGINE = _Engine()
