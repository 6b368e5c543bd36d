"""Which Placement a command uses: a service, a database file, or openstack-placement's database."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from osc_lib.command import command

from osc_placement import errors, plugin
from osc_placement.plan import guards as plan_guards

if TYPE_CHECKING:
    from osc_placement.client import api


class TargetCommand(command.Command):
    """A command that checks its target before the first request."""

    #: Whether the command writes, so that it may create a missing database file.
    writes: ClassVar[bool] = True

    #: Whether to print on stderr which database file is used. A plan's summary names it.
    names_database: ClassVar[bool] = True

    #: The guards that ``--allow`` can override, besides that of a running service.
    guards: ClassVar[Collection[str]] = ()

    _arguments: argparse.Namespace = argparse.Namespace()

    @property
    def auth_required(self) -> bool:
        """Whether osc-lib authenticates before it runs the command."""
        return not self._is_local()

    def add_allow(self, group: argparse._ActionsContainer) -> None:
        """Add ``--allow`` with the guards of the command."""
        guards = sorted({*self.guards, plan_guards.RUNNING_SERVICE})
        group.add_argument(
            "--allow",
            action="append",
            default=[],
            metavar="<guard>",
            choices=guards,
            help="Make changes that this guard refuses. May be repeated. Guards:"
            f" {', '.join(guards)}.",
        )

    def _check_target(self, client: api.Client) -> None:
        """Name a database on stderr. Errors: PlacementError for one that must not be used."""
        if plugin.offline_configuration(self._settings()):
            self._check_users(client)
        database = self._database()
        if database is not None:
            self._check_database(database)

    def _check_database(self, database: str) -> None:
        if not self._may_write and not os.path.exists(database):
            raise errors.PlacementError(
                f"the database file {os.path.abspath(database)} does not exist, and only a command"
                " that writes creates it: check --os-placement-database and"
                " OSC_PLACEMENT_DATABASE"
            )
        if self.names_database:
            self._write_note(f"Database file: {os.path.abspath(database)}")

    def _check_users(self, client: api.Client) -> None:
        """Refuse to write to openstack-placement's database while it has other users."""
        application: Any = client.transport.application()
        self._write_note(f"Using {application.database}")
        if not application.users:
            return
        used = f"{client.target} is in use: {', '.join(application.users)}"
        allowed = getattr(self._arguments, "allow", ())
        if self._may_write and plan_guards.RUNNING_SERVICE not in allowed:
            raise errors.PlacementError(
                f"{used}; nothing was changed. Stop the Placement services, or --allow"
                f" {plan_guards.RUNNING_SERVICE}"
            )
        self._write_note(f"Warning: {used}")

    def _write_note(self, text: str) -> None:
        if not self.is_quiet:
            sys.stderr.write(f"{text}\n")

    @property
    def is_quiet(self) -> bool:
        """Whether -q was given."""
        options = getattr(self.app, "options", None)
        return getattr(options, "verbose_level", 1) == 0

    @property
    def _may_write(self) -> bool:
        return self.writes and not getattr(self._arguments, "dry_run", False)

    def _is_local(self) -> bool:
        """Whether Placement runs in this process."""
        return bool(self._database() or plugin.offline_configuration(self._settings()))

    def _database(self) -> str | None:
        """The database file that the command uses; None for openstack-placement."""
        return plugin.embedded_database(self._settings())

    def _settings(self) -> dict[str, Any]:
        """The settings of the command line, the environment and clouds.yaml."""
        self._choose_target()
        options = self._options()
        settings: dict[str, Any] = {} if options is None else options.config
        return settings

    def _choose_target(self) -> None:
        """Prefer the command line to the environment, before the client reads the settings.

        The shell reads the options again for each command, and for nova.
        """
        options = self._options()
        if options is not None:
            plugin.prefer_named_target(options, self._command_line())

    def _options(self) -> Any:
        """The options of the client manager; None without one."""
        manager = getattr(self.app, "client_manager", None)
        return getattr(manager, "_cli_options", None)

    def _command_line(self) -> Sequence[str]:
        return getattr(self.app, "command_options", None) or ()
