# SPDX-License-Identifier: Apache-2.0
"""The base classes of all commands: target, versions, errors, exit codes, help.

A command parses its arguments, calls one workflow or a few client methods, and returns
columns and rows.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar, cast

from cliff import command as cliff_command, display
from osc_lib import exceptions
from osc_lib.command import command

from osc_placement import errors, microversion, plugin
from osc_placement.client import api_errors, retry
from osc_placement.model import command_line
from osc_placement.v1.common import arguments
from osc_placement.v1.output import help_text, rows, shell, streams

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.v1.output import tables
    from osc_placement.workflows.cloud.context import ReadContext

    DisplayCommandBase = display.DisplayCommandBase[Any]
else:
    #: It is generic since cliff 4.13.
    DisplayCommandBase = display.DisplayCommandBase

#: ``{argument: the setting of the global option, the environment or clouds.yaml}``
_SETTINGS = {
    "workers": plugin.WORKERS_SETTING,
    "rate": plugin.RATE_SETTING,
    "nova_recording": plugin.RECORDING_SETTING,
}

#: What a lister returns, ``(column names, rows)``, and a command that shows one object.
Rows = tuple[tuple[str, ...], Collection[Any]]
Fields = tuple[tuple[str, ...], tuple[Any, ...]]

T = TypeVar("T")
R = TypeVar("R")

#: The exit codes of upstream's commands, and of every command that defines no others.
EXIT_CODES: Mapping[int, str] = {
    0: "success",
    1: "the request was refused, or an error occurred",
    2: "the command line is wrong",
}


class CommandRefused(exceptions.CommandError, ValueError):
    """The command refuses its input: osc-placement 4 raised one or the other base."""


#: The values of options that a command does not declare.
_DEFAULTS: Mapping[str, Any] = {
    **dict.fromkeys(_SETTINGS),
    "allow": (),
    "dry_run": False,
    "file": None,
    "log_json": None,
    "max_percent": None,
    "plan_out": None,
    "skip_port_allocations": False,
    "undo_out": None,
}


class OwnArguments(cliff_command.Command):
    """The last base class of each command: cliff's display classes add their arguments after it."""

    #: The guards that ``--allow`` can override.
    guards: ClassVar[Collection[str]] = ()

    #: What ``add_arguments`` and ``add_allow`` declared.
    own_arguments: Sequence[argparse.Action] = ()

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Build the parser, with the command's own arguments. Sends no request."""
        parser = super().get_parser(prog_name)
        parser.set_defaults(**_DEFAULTS)
        self.add_arguments(parser)
        if self.guards and not any(action.dest == "allow" for action in parser._actions):
            self.add_allow(parser)
        self.own_arguments = parser._actions[1:]
        return parser

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's own arguments."""

    def add_allow(self, group: argparse._ActionsContainer) -> None:
        """Add ``--allow`` with the guards of the command."""
        guards = sorted(self.guards)
        arguments.add_repeated(
            group,
            "--allow",
            "<guard>",
            f"Make changes that this guard refuses. May be repeated. Guards: {', '.join(guards)}.",
            choices=guards,
        )


class PlacementCommand(command.Command):
    """The base class of every command: it checks its target before the first request."""

    #: Whether the command writes, so that it may create a missing database file.
    writes: ClassVar[bool] = True

    #: Whether to print on stderr which database file is used. A plan's summary names it.
    names_database: ClassVar[bool] = True

    #: Whether writers cannot disturb it: one transaction reads openstack-placement's database.
    reads_one_moment: ClassVar[bool] = False

    _arguments: argparse.Namespace = argparse.Namespace(**_DEFAULTS)

    #: The feature (a key of microversion.FEATURES) that the whole command needs.
    required_feature: ClassVar[str | None] = None

    #: The microversion to use when the operator pins none. The command uses a lower one if
    #: the server supports no more, and a higher one if an option requires it.
    default_version: ClassVar[microversion.Microversion] = microversion.UNPINNED

    #: Command lines that an operator can copy.
    example: ClassVar[str] = ""

    exit_codes: ClassVar[Mapping[int, str]] = EXIT_CODES

    #: The exit code of a run that raised no error. cliff's own classes always return 0.
    exit_code: int = 0

    _parser: argparse.ArgumentParser
    _is_connected: bool = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Build the parser. Sends no request."""
        self._parser = super().get_parser(prog_name)
        self._parser.formatter_class = help_text.HelpFormatter
        return self._parser

    def get_epilog(self) -> str:
        """Build the end of the help: example, required microversion, exit codes."""
        parts = []
        if self.example:
            lines = [f"    {line}" for line in self.example.strip().splitlines()]
            parts += ["Example::", "\n".join(lines)]
        if self.required_feature is not None:
            minimum = microversion.FEATURES[self.required_feature]
            parts.append(f"Needs Placement API {minimum} or later.")
        codes = "; ".join(f"{code} {text}" for code, text in self.exit_codes.items())
        parts.append(f"Exit codes: {codes}.")
        hooks = (hook.obj.get_epilog() for hook in self._hooks if hook.obj is not None)
        parts += [text for text in hooks if text]
        # cliff searches the metadata of every installed distribution for this name, which
        # takes 5 % of the run time of a command.
        parts.append("This command is provided by the osc-placement plugin.")
        return "\n\n".join(parts)

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command.

        Errors: those of the service as they are (each is also an error of osc-lib or
        keystoneauth); every other PlacementError as CommandRefused, with one message.
        """
        _freeze_modules()
        self._arguments = parsed_args
        contradiction = plugin.contradiction(getattr(self.app, "command_options", None) or ())
        if contradiction:
            self.usage_error(contradiction)
        self._read_settings(parsed_args)
        try:
            with streams.checked(self.app), retry.stop_reading_after_failures():
                code = int(super().run(parsed_args) or 0)
        except streams.OutputFailed as error:
            return self._report_lost_output(error)
        except errors.PlacementError as error:
            if isinstance(error, exceptions.CommandError):
                raise
            raise CommandRefused(str(error)) from error
        except KeyboardInterrupt:
            self._report_interrupt()
            raise
        finally:
            self._close()
        return code or self.exit_code

    def _read_settings(self, parsed_args: argparse.Namespace) -> None:
        """Set the arguments of _SETTINGS. Exits with a usage error for an invalid number."""
        settings = self._settings()
        for name, setting in _SETTINGS.items():
            option = plugin.global_option(setting)
            value = settings.get(setting)
            if value is not None and name != "nova_recording":
                try:
                    value = arguments.positive(str(value))
                except argparse.ArgumentTypeError as error:
                    self.usage_error(f"argument {option}: {error}")
            setattr(parsed_args, name, value or (retry.MOST if name == "workers" else None))

    def _has_written(self) -> bool:
        return self._is_connected and self.client().transport.has_written

    def _report_lost_output(self, error: streams.OutputFailed) -> int:
        """Say whether changes were made; the exit code. "list | head" is silent."""
        if self._has_written():
            streams.write_message(f"The command was carried out, but {error}")
        elif not error.is_pipe:
            streams.write_message(f"Nothing was changed, and {error}")
        return error.exit_code

    def _report_interrupt(self) -> None:
        text = "nothing was changed in Placement"
        if self._has_written():
            text = "changes may have been made; check before a retry"
        streams.write_message(f"Interrupted: {text}")

    @contextlib.contextmanager
    def reading(self, *, is_shown: bool = True) -> Iterator[ReadContext]:
        """What a workflow reads with; ``is_shown``: with a progress bar during the block."""
        from osc_placement.v1.output import progress
        from osc_placement.workflows.cloud.context import ReadContext

        with progress.shown(quiet=self.is_quiet or not is_shown) as shown:
            yield ReadContext(self._arguments.workers, shown)

    def read_each(self, title: str, read: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """``read(item)`` of each item, several at a time, with a progress bar of this title.

        A read is repeated while the server fails. Errors: those of ``read``.
        """
        with self.reading(is_shown=len(items) != 1) as context:
            return list(context.each(read, items, title))

    def usage_error(self, text: str) -> NoReturn:
        """Exit with argparse's message and code 2."""
        self._parser.error(text)

    def require_options(self, parsed_args: argparse.Namespace, options: Iterable[str]) -> None:
        """Exit as argparse does (code 2) if an option is missing.

        For options that only some microversions require.
        """
        missing = [
            option
            for option in options
            if getattr(parsed_args, option.removeprefix("--").replace("-", "_")) is None
        ]
        if missing:
            self.usage_error(f"the following arguments are required: {', '.join(missing)}")

    def connect(
        self, required: Iterable[tuple[str, str]] = (), optional: Iterable[str] = ()
    ) -> api.Client:
        """Return the client, at the microversion for this command line.

        ``required`` contains ``(feature, the option that needs it)``; ``optional`` contains
        features that an unpinned run uses if the server supports them. Raises
        UnsupportedVersion or InvalidInput for missing features before any other request.

        Requests: one GET of the version document if no version is pinned.
        """
        features = [*required]
        if self.required_feature is not None:
            features.insert(0, (self.required_feature, "this command"))
        client = self.client()
        version = self._version(client, [*(feature for feature, _ in features), *optional])
        _check(version, features)
        return client.at(version)

    def client(self) -> api.Client:
        """The client at the microversion of the command line. Sends no request."""
        self._settings()
        shell: Any = self.app
        client: api.Client = shell.client_manager.osc_placement
        if not self._is_connected:
            self._check_target(client)
        self._is_connected = True
        client.transport.pace.most = self._arguments.workers or retry.MOST
        client.transport.pace.rate = self._arguments.rate
        return client

    @property
    def runs_on_recording(self) -> bool:
        """Whether the command runs on a snapshot with responses of nova."""
        return self._database() is not None and self.client().has_recording

    @property
    def nova_recording(self) -> str | None:
        """The file of ``--os-nova-recording``; None without it."""
        recording: str | None = self._arguments.nova_recording
        return recording

    def recording_options(self) -> list[command_line.Option]:
        """The global option for the recording, for a command line that is printed."""
        recording = self.nova_recording
        option = plugin.global_option(plugin.RECORDING_SETTING)
        return [] if recording is None else [(option, recording)]

    def _version(self, client: api.Client, features: Iterable[str]) -> microversion.Microversion:
        if client.pinned:
            return client.microversion
        useful = max([self.default_version, *(microversion.FEATURES[name] for name in features)])
        return min(useful, client.microversion)

    def _close(self) -> None:
        """Close a database in this process. osc-lib closes the connections of a service."""
        if self.is_local:
            shell: Any = self.app
            shell.client_manager.osc_placement.close()

    @property
    def auth_required(self) -> bool:
        """Whether osc-lib authenticates before it runs the command."""
        return not self.is_local

    @property
    def required_scope(self) -> bool:
        """False: any token will do.

        osc-lib asks between the setup of the session and the login, so that the login is checked
        as all other requests are: keystoneauth would follow a redirect with the password, and its
        errors have the address with its user.
        """
        prepare_login(self.app)
        return False

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
            self.write_note(f"Database file: {os.path.abspath(database)}")

    def _check_users(self, client: api.Client) -> None:
        """Refuse to write to openstack-placement's database while it has other users."""
        placement = client.transport.local()
        if placement is None:
            raise AssertionError(client.target)
        self.write_note(f"Using {placement.database}")
        if self._may_write and not placement.users:
            self.write_note(placement.load_for_writing())
        if not placement.users or self.reads_one_moment:
            return
        used = f"{client.target} is in use: {', '.join(placement.users)}"
        if self._may_write and not self._settings().get(plugin.IN_USE_SETTING):
            raise errors.PlacementError(
                f"{used}; nothing was changed. Stop the Placement services, or add"
                f" {plugin.global_option(plugin.IN_USE_SETTING)}"
            )
        self.write_note(f"Warning: {used}")

    def write_note(self, text: str) -> None:
        """Print a line on stderr, unless -q was given."""
        if text and not self.is_quiet:
            sys.stderr.write(f"{text}\n")

    @property
    def is_quiet(self) -> bool:
        """Whether -q was given."""
        options = getattr(self.app, "options", None)
        return getattr(options, "verbose_level", 1) == 0

    @property
    def _may_write(self) -> bool:
        return self.writes and not self._arguments.dry_run

    @property
    def is_local(self) -> bool:
        """Whether Placement runs in this process."""
        return bool(self._database() or plugin.offline_configuration(self._settings()))

    def _database(self) -> str | None:
        """The database file that the command uses; None for openstack-placement."""
        return plugin.embedded_database(self._settings())

    def _settings(self) -> dict[str, Any]:
        """The settings of the command line, the environment and clouds.yaml."""
        return settings_of(self.app)


def settings_of(shell: object) -> dict[str, Any]:
    """The settings of the command line, the environment and clouds.yaml.

    The target of the command line replaces that of the environment, each time: the shell reads the
    options again for each command, and for nova.
    """
    manager = getattr(shell, "client_manager", None)
    options = getattr(manager, "_cli_options", None)
    if options is None:
        return {}
    plugin.prefer_named_target(options, getattr(shell, "command_options", None) or ())
    settings: dict[str, Any] = options.config
    return settings


def cloud_name(shell: object) -> str:
    """The operator's name of the cloud, of --os-cloud or OS_CLOUD; empty without one."""
    manager = getattr(shell, "client_manager", None)
    name = getattr(getattr(manager, "_cli_options", None), "name", None)
    # openstacksdk calls a cloud without a name "defaults".
    return "" if name in (None, "defaults", "envvars") else str(name)


def _check(version: microversion.Microversion, required: Iterable[tuple[str, str]]) -> None:
    """Raise an error for missing features: for each option the one with the highest version."""
    missing: dict[str, str] = {}
    for feature, option in required:
        minimum = microversion.FEATURES[feature]
        if minimum > version and minimum >= microversion.FEATURES[missing.get(option, feature)]:
            missing[option] = feature
    unsupported = [
        api_errors.UnsupportedVersion(feature, microversion.FEATURES[feature], version, option)
        for option, feature in missing.items()
    ]
    if len(unsupported) == 1:
        raise unsupported[0]
    if unsupported:
        raise errors.InvalidInput(str(error) for error in unsupported)


def prepare_login(shell: Any) -> None:
    """Check the redirects of a login over the session of the shell, and its logs. Sends nothing."""
    from osc_placement.client import transport

    streams.clean_logs()
    session = getattr(getattr(shell, "client_manager", None), "session", None)
    if session is not None:
        transport.prepare(session)


class Command(PlacementCommand, OwnArguments):
    """A command without output."""


class Lister(PlacementCommand, command.Lister, OwnArguments):
    """A command that shows rows, as upstream's: its tables are cliff's own."""

    def shows(self, parsed_args: argparse.Namespace, *columns: str) -> bool:
        """Whether to show columns that upstream's command does not have: --long, or -c."""
        return parsed_args.long or any(name in parsed_args.columns for name in columns)

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """Print the rows; of an empty table say on stderr what is empty, and where."""
        data = rows.format_rows(parsed_args.formatter, data)
        code: int = super().produce_output(parsed_args, column_names, data)
        noun, _, verb = (self.cmd_name or "").rpartition(" ")
        is_table = parsed_args.formatter == "table" and not isinstance(self, ReportCommand)
        if is_table and verb in {"list", "show"} and not data:
            self.write_note(f"No {noun} found on {self.client().target}")
        return code


class ShowOne(PlacementCommand, command.ShowOne, OwnArguments):
    """A command that shows the fields of one object, as upstream's: its table is cliff's own."""

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """Print the fields."""
        data = rows.format_row(parsed_args.formatter, data)
        if parsed_args.formatter == "shell":
            self.formatter = cast(Any, shell.ShellFormatter())
        code: int = super().produce_output(parsed_args, column_names, data)
        return code


class ReportCommand(PlacementCommand, DisplayCommandBase, OwnArguments):
    """A command that upstream does not have: its tables fit the terminal, and a summary follows.

    It only reads, with all that the server supports; a command that changes the cloud says so.
    """

    writes = False
    default_version = microversion.MAXIMUM

    #: The columns of a table, unless the operator selects others; empty for all columns.
    table_columns: Sequence[str] = ()

    #: Lines to print on stderr after the output; none with -q.
    summary: Sequence[str] = ()

    #: The tables to print instead of one table of all rows or fields.
    answer: Sequence[tables.Table] = ()

    def answer_tables(self, column_names: Sequence[str], data: Any) -> Sequence[tables.Table]:
        """``answer``, or the tables made of the rows."""
        return self.answer

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """Print the answer, and the summary also if the answer cannot be written."""
        try:
            return self._write(parsed_args, column_names, data)
        finally:
            self._print_summary()

    def _print_summary(self) -> None:
        try:
            sys.stdout.flush()
        finally:
            if not self.is_quiet:
                sys.stderr.writelines(f"{errors.shortened(line)}\n" for line in self.summary)

    def _write(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        if parsed_args.formatter == "table":
            from osc_placement.v1.output import tables

            self.formatter = tables.Formatter(may_drop=not parsed_args.columns, quiet=self.is_quiet)
            if not parsed_args.columns:
                several = self.answer_tables(column_names, data)
                if several:
                    self.formatter.write(several, self.app.stdout, parsed_args)
                    return 0
                shown = [name for name in self.table_columns if name in column_names]
                parsed_args.columns = shown
        # Lister's or ShowOne's.
        return super().produce_output(parsed_args, column_names, data)  # type: ignore[safe-super]


class ReportLister(ReportCommand, Lister):
    """A report with rows."""


#: A format that cliff does not know.
_MARKDOWN = "markdown"


class MarkdownPage(PlacementCommand):
    """A command whose rows ``-f markdown`` prints as a page."""

    is_markdown = False

    def markdown(self) -> Iterable[str]:
        """The lines of the page."""
        raise NotImplementedError

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Build the parser, with the formatter markdown. Sends no request."""
        parser = super().get_parser(prog_name)
        (formatter,) = [item for item in parser._actions if item.dest == "formatter"]
        formatter.choices = [*(formatter.choices or ()), _MARKDOWN]
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command; cliff knows its own formatters only."""
        if parsed_args.formatter == _MARKDOWN:
            self.is_markdown, parsed_args.formatter = True, "json"
        return super().run(parsed_args)

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """Print the rows, or the page."""
        if not self.is_markdown:
            code: int = super().produce_output(parsed_args, column_names, data)  # type: ignore[misc]
            return code
        self.app.stdout.writelines(f"{line}\n" for line in self.markdown())
        return 0


class ReportShowOne(ReportCommand, ShowOne):
    """A report with the fields of one object."""


@functools.cache
def _freeze_modules() -> None:
    """Exclude what is imported from garbage collection, once per process.

    The modules of all plugins of ``openstack`` are most of the objects of a command: collections
    take a tenth of the CPU time of a batch with them.
    """
    gc.freeze()
