# SPDX-License-Identifier: Apache-2.0
"""``-f shell``: variables that a shell can evaluate, whatever the names in them contain."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, TextIO

from osc_placement.model import command_line
from osc_placement.v1.output import rows

#: What means something between double quotes.
_SPECIAL = re.compile(r'(["\\$`])')


class ShellFormatter:
    """The writer of an object as ``name="value"``, in place of cliff's, which quotes less."""

    def emit_one(
        self,
        column_names: Sequence[str],
        data: Sequence[Any],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        """Write a line for each field, or for those of ``--variable``."""
        for column, value in zip(column_names, data, strict=True):
            name = re.sub(r"[ :-]", "_", column.lower())
            if not parsed_args.variables or name in parsed_args.variables:
                plain = value.machine_readable() if isinstance(value, rows.Cell) else value
                stdout.write(f"{parsed_args.prefix}{name}={quoted(str(plain))}\n")


def quoted(value: str) -> str:
    """A value between double quotes, as cliff has it; ``$'...'`` for characters to escape."""
    if value.isprintable():
        escaped = _SPECIAL.sub(r"\\\1", value)
        return f'"{escaped}"'
    return command_line.quote(value)
