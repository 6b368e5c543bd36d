"""What all commands share: version and feature checks, errors, exit codes, help, authentication.

A command parses, calls one workflow or a few client methods, and hands back columns and
rows. Everything that is the same for all of them happens here.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

from cliff import _argparse
from osc_lib import exceptions
from osc_lib.command import command

from osc_placement import errors, microversion, plugin
from osc_placement.client import api_errors

if TYPE_CHECKING:
    from osc_placement.client import api

T = TypeVar("T")

#: How often a write of one thing is tried when others keep writing in between.
ATTEMPTS = 5
_PAUSE = 0.1

#: What upstream's 31 commands exit with, and every other one unless it says more.
EXIT_CODES: Mapping[int, str] = {
    0: "done",
    1: "refused, or an error",
    2: "the command line is wrong",
}


class HelpFormatter(_argparse.SmartHelpFormatter):
    """Wraps options as cliff does, and paragraph by paragraph; indented lines stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = text.split("\n\n")
        return "\n\n".join(
            part if part[:1] == " " else super(HelpFormatter, self)._fill_text(part, width, indent)
            for part in parts
        )


class Placement(command.Command):
    """The part of a command that knows Placement."""

    #: The feature (a key of microversion.FEATURES) without which there is no such command.
    needs: ClassVar[str | None] = None

    #: What the command answers to, and sends at, when no version is pinned; no more than
    #: the server has, and more when an option asks for more.
    unpinned: ClassVar[microversion.Microversion] = microversion.UNPINNED

    #: A command line that an operator could copy, or several.
    example: ClassVar[str] = ""

    exit_codes: ClassVar[Mapping[int, str]] = EXIT_CODES

    #: Whether the command reads another service too (nova, neutron), so that it must
    #: authenticate even when Placement is embedded.
    other_services: ClassVar[bool] = False

    #: What ``run`` exits with when nothing was raised; cliff's own classes know only 0.
    exit_code: int = 0

    _parser: argparse.ArgumentParser

    @property
    def auth_required(self) -> bool:
        """osc-lib asks this before it runs the command."""
        return self.other_services or not self._embedded()

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Start the parser that ``add_arguments`` fills. No request is sent here."""
        self._parser = super().get_parser(prog_name)
        self._parser.formatter_class = HelpFormatter
        self.add_arguments(self._parser)
        return self._parser

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's own arguments."""

    def get_epilog(self) -> str:
        """The example, the microversion needed and the exit codes: the end of every help."""
        parts = []
        if self.example:
            lines = [f"    {line}" for line in self.example.strip().splitlines()]
            parts.append("\n".join(["Example::", "", *lines]))
        if self.needs is not None:
            least = microversion.FEATURES[self.needs]
            parts.append(f"Needs Placement API {least} or later.")
        codes = "; ".join(f"{code} {text}" for code, text in self.exit_codes.items())
        parts.append(f"Exit codes: {codes}.")
        hooks = (hook.obj.get_epilog() for hook in self._hooks if hook.obj is not None)
        parts += [text for text in hooks if text]
        # cliff finds this name in the metadata of every installed distribution, at every
        # command: a twentieth of its whole time.
        parts.append("This command is provided by the osc-placement plugin.")
        return "\n\n".join(parts)

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command; what went wrong on purpose becomes one message and exit code 1."""
        try:
            code = super().run(parsed_args)
        except errors.PlacementError as error:
            raise exceptions.CommandError(str(error)) from error
        finally:
            self._close()
        return code or self.exit_code

    def usage_error(self, text: str) -> NoReturn:
        """Leave with argparse's message and exit code 2."""
        self._parser.error(text)

    def require(self, parsed_args: argparse.Namespace, options: Iterable[str]) -> None:
        """Leave as argparse does (exit code 2) when one of these options was not given.

        For what only some microversions require.
        """
        missing = [
            option
            for option in options
            if getattr(parsed_args, option.removeprefix("--").replace("-", "_")) is None
        ]
        if missing:
            self.usage_error(f"the following arguments are required: {', '.join(missing)}")

    def connect(
        self, asked: Iterable[tuple[str, str]] = (), wishes: Iterable[str] = ()
    ) -> api.Client:
        """The client at the version that this command line runs at.

        ``asked`` holds ``(feature, the option that needs it)``; whatever the version lacks
        of it is refused at once, before any other request. ``wishes`` are features that an
        unpinned run makes use of where the server has them. Cost: one GET of the version
        document when nothing is pinned.
        """
        wanted = [*asked]
        if self.needs is not None:
            wanted.insert(0, (self.needs, "this command"))
        client: api.Client = self.app.client_manager.placement  # type: ignore[attr-defined]
        features = [feature for feature, _ in wanted] + [*wishes]
        version = self._version(client, features)
        _check(version, wanted)
        return client.at(version)

    def _version(self, client: api.Client, features: Iterable[str]) -> microversion.Microversion:
        if client.pinned:
            return client.microversion
        useful = max([self.unpinned, *(microversion.FEATURES[name] for name in features)])
        return min(useful, client.microversion)

    def _embedded(self) -> bool:
        manager = getattr(self.app, "client_manager", None)
        options = getattr(manager, "_cli_options", None)
        return bool(options is not None and plugin.embedded_database(options.config))

    def _close(self) -> None:
        """Give an embedded database back; a service's connections are osc-lib's to close."""
        if self._embedded():
            self.app.client_manager.placement.close()  # type: ignore[attr-defined]


def _check(version: microversion.Microversion, wanted: Iterable[tuple[str, str]]) -> None:
    """Raise for what the version lacks: per option the feature that needs most."""
    lacking: dict[str, str] = {}
    for feature, what in wanted:
        needs = microversion.FEATURES[feature]
        if needs > version and needs >= microversion.FEATURES[lacking.get(what, feature)]:
            lacking[what] = feature
    missing = [
        api_errors.UnsupportedVersion(feature, microversion.FEATURES[feature], version, what)
        for what, feature in lacking.items()
    ]
    if len(missing) == 1:
        raise missing[0]
    if missing:
        raise errors.InvalidInput(str(error) for error in missing)


class Command(Placement):
    """A command without an answer."""


class Lister(Placement, command.Lister):
    """A command that answers columns and rows."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        """``(column names, rows)``."""
        raise NotImplementedError


class ShowOne(Placement, command.ShowOne):
    """A command that answers the fields of one thing."""

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """``(field names, values)``."""
        raise NotImplementedError


def retrying(attempt: Callable[[], T]) -> T:
    """What ``attempt`` answers: it looks, decides and writes, and starts over on a conflict.

    Raises the last GenerationConflict after five attempts.
    """
    for count in range(1, ATTEMPTS):
        try:
            return attempt()
        except api_errors.GenerationConflict:
            time.sleep(_PAUSE * count)
    return attempt()
