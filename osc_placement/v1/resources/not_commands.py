# SPDX-License-Identifier: Apache-2.0
"""Names that operators expect and that are no commands: each names the right command line.

The entry points are in the group ``openstack.extension``; ``openstack --help`` leaves them out.
"""

from __future__ import annotations

import argparse
import sys
from typing import ClassVar

from osc_lib.command import command

_USAGE = 2


class NotACommand(command.Command):
    """The base class: accepts every argument, sends no request, and exits with 2."""

    # cliff's: not in the list of commands.
    deprecated = True
    auth_required = False

    name: ClassVar[str]
    #: The right command line.
    instead: ClassVar[str]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Build a parser that takes options for words too."""
        parser = argparse.ArgumentParser(
            prog=prog_name, description=self._text(), prefix_chars="\0", add_help=False
        )
        parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print the right command line."""
        sys.stderr.write(f"{self._text()}\n")
        return _USAGE

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Never called: ``run`` does all."""

    def _text(self) -> str:
        return f"'{self.name}' is not an openstack command: use {self.instead}"


def _not_a_command(name: str, instead: str) -> type[NotACommand]:
    fields = {"__module__": __name__, "name": name, "instead": instead}
    return type("NotACommandEither", (NotACommand,), fields)


#: Placement lists the allocations of one provider or consumer only.
ListAllocations = _not_a_command(
    "allocation list",
    "openstack resource provider consumer list <provider>, or"
    " openstack resource provider allocation show <consumer_uuid>",
)
ShowAllocations = _not_a_command(
    "allocation show", "openstack resource provider allocation show <consumer_uuid>"
)
SetTrait = _not_a_command(
    "trait set",
    "openstack resource provider trait add <provider> --trait <trait>, or"
    " openstack resource provider trait set to replace all traits",
)
