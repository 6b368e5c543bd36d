# SPDX-License-Identifier: Apache-2.0
"""The commands in the documentation's pages, and the output that the pages show for them.

``python -m tests.support.guide PAGE ...`` runs the pages' commands and writes their real output
into the pages.

A literal block may hold these lines, which run in the order of the page, on the sample cloud
``12-hosts``:

* ``$ openstack ...`` with its output below it, compared line by line; ``...`` matches any lines;
* ``$ osc-placement-server --database FILE --load SAMPLE --exit``: the next commands use this file;
* ``$ export OSC_PLACEMENT_CONFIG=FILE``: the next commands use openstack-placement without a
  service. A process can do that once, with one file;
* ``$ echo $?``, the exit code of the command before it;
* ``$ cat FILE`` with the file's content below it, which is written to the file;
* ``openstack ...`` without output, which only has to run.
"""

from __future__ import annotations

import difflib
import logging
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest import mock

from osc_placement.v1.output import tables
from osc_placement.v1.output.terminal import fold
from tests.support.peer import placement, process, shell, state, target as targets

DOCS = process.ROOT / "doc" / "source"
README = process.ROOT / "README.rst"
INDENT = " " * 4
AGGREGATE = "04223a25-417d-580c-a706-c4cd6aa4087d"

#: Commands that call another service.
SKIPPED = (
    *("openstack complete", "openstack flavor ", "openstack aggregate ", "openstack endpoint "),
    *("openstack placement query replay --against ", "openstack role ", "openstack user "),
)
#: Commands that get the sample's recording of nova and neutron.
WITH_NOVA = re.compile(
    r"openstack (allocation candidate explain"
    r"|placement (allocation|aggregate|capacity|flavor|health|host|metrics|migration run"
    r"|plan (apply|undo|show .*--impact)"
    r"|provider|recipe|report|server|snapshot save|upgrade)|resource provider consumer list)\b"
)
RECORDING = "--os-nova-recording"

#: The variable, and what pages show as the configuration of openstack-placement.
OFFLINE = "OSC_PLACEMENT_CONFIG"
CONFIGURATION = "/etc/placement/placement.conf"

#: Exit codes of a command whose output a page leaves out.
ACCEPTED_CODES = {0, 3, 4, 5, 6}
#: The width of the terminal that the pages show, and that the README shows. Messages are wrapped.
WIDTH, README_WIDTH = "100", "80"
#: The first characters of rows of a table and of data.
NOT_WRAPPED = ("|", "+", " ", '"', "{", "[", "-", "\u2500")
#: Where the pages keep their files.
HOME = "/home/op"


class Step(NamedTuple):
    """A command of a page; ``lines`` are the (first, last + 1) of its output."""

    command: str
    output: list[str] | None
    lines: tuple[int, int]


def steps(text: str) -> Iterator[Step]:
    """The commands of a page. ``output`` is None where the page shows only the command."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        match = re.fullmatch(rf"{INDENT}(\$ )?(.*)", lines[at])
        at += 1
        if not match or not (match[1] or match[2].startswith("openstack ")):
            continue
        command = match[2]
        while command.endswith("\\"):
            command = f"{command[:-1].rstrip()} {lines[at].strip()}"
            at += 1
        if not match[1]:
            yield Step(command, None, (at, at))
            continue
        end = at
        while end < len(lines) and _is_output(lines[end]):
            end += 1
        while end > at and not lines[end - 1].strip():
            end -= 1
        yield Step(command, [line[len(INDENT) :] for line in lines[at:end]], (at, end))
        at = end


def _is_output(line: str) -> bool:
    return not line.strip() or (line.startswith(INDENT) and not line.startswith(f"{INDENT}$ "))


class Terminal:
    """A shell in ``folder``, on the sample cloud, with the exit code of the last command."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self.width = WIDTH
        self._cloud: targets.Target = targets.OnFile(folder / "cloud.sqlite")
        self._cloud.load("12-hosts")
        self.code = 0
        #: The commands with a table that does not fit a terminal of 80 columns.
        self.too_wide: list[str] = []

    def run(self, step: Step) -> list[str] | None:
        """The lines that a step prints; None for a command that does not run here."""
        command, _, file = re.sub(r"<aggregate>|\bUUID\b", AGGREGATE, step.command).partition(" > ")
        if command.startswith("openstack"):
            command = command.partition(" | ")[0]
        words = shlex.split(command, comments=True)
        if command.startswith("cat ") and step.output is not None:
            (self._folder / words[1]).write_text("\n".join(step.output) + "\n")
            return step.output
        if command == "echo $?":
            return [str(self.code)]
        if words[:1] == ["osc-placement-server"]:
            return self._load(words[1:])
        if words[:1] == ["export"] and OFFLINE in command:
            return self._use_offline()
        if words[:1] != ["openstack"] or command.startswith(SKIPPED):
            return None
        added = ""
        is_offline = isinstance(self._cloud, targets.OfflinePlacement)
        if WITH_NOVA.match(command) and RECORDING not in words and not is_offline:
            words += [RECORDING, "12-hosts"]
            added = f" {RECORDING}=12-hosts"

        def fit(columns: Any, rows: Any, width: int | None, **options: Any) -> tables.Layout:
            if width_of(real_fit(columns, rows, 80, **options)) > 80:
                self.too_wide.append(step.command)
            return real_fit(columns, rows, width, **options)

        real_fit = tables.fit
        with (
            mock.patch.dict(os.environ, CLIFF_MAX_TERM_WIDTH=self.width),
            mock.patch.object(tables, "fit", fit),
        ):
            ended = shell.run([*self._cloud.options, *words[1:]], merge=not file)
        self.code = ended.code
        if file:
            (self._folder / file).write_text(ended.stdout)
            if step.output is None:
                return [ended.stdout]
        # The page shows a cloud, and so the command that continues has no recording either.
        printed = (ended.stderr if file else ended.stdout).replace(added, "").splitlines()
        lines = [self._shown(line) for line in printed if _is_shown(line, has_note=not added)]
        return [part for line in lines for part in self._wrapped(line)]

    def _load(self, arguments: list[str]) -> list[str]:
        """Load a sample into a file, which the next commands use."""
        database = self._folder / arguments[arguments.index("--database") + 1]
        database.unlink(missing_ok=True)
        server = [sys.executable, "-m", "osc_placement.server", *arguments]
        ended = subprocess.run(
            server, cwd=self._folder, capture_output=True, text=True, check=False
        )
        self.code = ended.returncode
        self._cloud = targets.OnFile(database)
        return [*ended.stdout.splitlines(), *ended.stderr.splitlines()]

    def _use_offline(self) -> list[str]:
        """Load the sample into openstack-placement's database, which the next commands use."""
        configuration = placement.configure(self._folder, "default")
        placement.create_tables(configuration)
        offline = targets.OfflinePlacement(configuration)
        offline.database = state.SQLiteState(self._folder / "placement.sqlite", self._folder)
        offline.load("12-hosts")
        for host in ("cmp-0001", "cmp-0002"):
            add_memory_encryption(offline, f"{host}.lab.example.org")
        self._cloud = offline
        return []

    def _wrapped(self, line: str) -> list[str]:
        """The parts of a message on a terminal, divided at blanks; a row or data stays whole."""
        if len(line) <= int(self.width) or line.startswith(NOT_WRAPPED):
            return [line]
        return fold(line, int(self.width))

    def _shown(self, line: str) -> str:
        """Replace what differs from run to run."""
        address = f"sqlite:///{self._folder}/placement.sqlite"
        line = line.replace(address, "mysql+pymysql://placement:***@db/placement")
        line = line.replace(f"{self._folder}/placement.conf", CONFIGURATION)
        line = line.replace(os.environ["XDG_STATE_HOME"], f"{HOME}/.local/state")
        line = line.replace(str(self._folder), HOME)
        time = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ-[0-9a-f]{8}"
        line = re.sub(time, "2026-01-01T09-00-00Z-3a5c7e91", line)
        line = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+", "2026-01-01T09:00:00+", line)
        return line.rstrip()


def width_of(layout: tables.Layout) -> int:
    """How wide a table is."""
    rows = [layout.columns, *layout.rows]
    cells = [
        [max(map(len, str(row[at]).split("\n"))) for row in rows] for at in range(len(rows[0]))
    ]
    return 1 + sum(max(column) + 3 for column in cells)


def add_memory_encryption(target: targets.Target, host: str) -> None:
    """Give a host 15 encrypted servers at most, and its first server one of them."""
    (listed,) = target.ask("GET", f"/resource_providers?name={host}")["resource_providers"]
    path = f"/resource_providers/{listed['uuid']}"
    offered = target.ask("GET", f"{path}/inventories")
    offered["inventories"]["MEM_ENCRYPTION_CONTEXT"] = {"total": 15, "max_unit": 1}
    target.ask("PUT", f"{path}/inventories", offered)
    consumers = target.ask("GET", f"{path}/allocations")["allocations"]
    consumer = min(consumers)
    body = target.ask("GET", f"/allocations/{consumer}") | {"consumer_type": "INSTANCE"}
    body["allocations"][listed["uuid"]]["resources"]["MEM_ENCRYPTION_CONTEXT"] = 1
    target.ask("PUT", f"/allocations/{consumer}", body)


def _is_shown(line: str, *, has_note: bool) -> bool:
    """False for the database file and, without ``has_note``, for the note about the recording.

    The pages show a cloud, except for the commands that name the recording themselves.
    """
    is_note = "12-hosts" in line and "nova" in line
    return (has_note or not is_note) and not line.startswith("Database file: ")


def differences(page: pathlib.Path, terminal: Terminal) -> Iterator[str]:
    """Each command of a page whose real output or exit code is another than the page shows."""
    terminal.width = README_WIDTH if page == README else WIDTH
    for step in steps(page.read_text()):
        printed = terminal.run(step)
        if printed is None:
            continue
        if step.output is None:
            if terminal.code not in ACCEPTED_CODES or not printed:
                yield f"{step.command}: exit code {terminal.code}\n" + "\n".join(printed)
        elif not matches(step.output, printed):
            lines = difflib.unified_diff(step.output, printed, "page", "real", lineterm="")
            yield f"{step.command}\n" + "\n".join(lines)


def differences_in_folder(page: pathlib.Path, folder: pathlib.Path) -> list[str]:
    """``differences``, in a process of its own that works in ``folder``."""
    _enter(folder)
    return list(differences(page, Terminal(folder)))


def _enter(folder: pathlib.Path) -> None:
    os.environ.update(HOME=str(folder), XDG_STATE_HOME=f"{folder}/state")
    os.chdir(folder)


def matches(shown: list[str], printed: list[str]) -> bool:
    """Whether ``printed`` is what a page shows, in which ``...`` matches any lines."""
    pattern = "".join(r"(.*\n)*?" if line == "..." else re.escape(f"{line}\n") for line in shown)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


def update(page: pathlib.Path, terminal: Terminal) -> None:
    """Write the real output of a page's commands into it, except where it shows ``...``."""
    terminal.width = README_WIDTH if page == README else WIDTH
    lines = page.read_text().splitlines()
    shift = 0
    for step in list(steps("\n".join(lines))):
        printed = terminal.run(step)
        if printed is None or step.output is None or matches(step.output, printed):
            continue
        if "..." in step.output:
            sys.stderr.write(f"{page}: not updated: {step.command}\n")
            continue
        begin, end = step.lines[0] + shift, step.lines[1] + shift
        lines[begin:end] = [f"{INDENT}{line}".rstrip() for line in printed]
        shift += len(printed) - (end - begin)
    page.write_text("\n".join(lines) + "\n")


def main() -> None:
    # A library that finds no handler would install one that writes every record.
    logging.getLogger().addHandler(logging.NullHandler())
    for name in sys.argv[1:]:
        page = pathlib.Path(name).resolve()
        with tempfile.TemporaryDirectory() as folder:
            _enter(pathlib.Path(folder))
            update(page, Terminal(pathlib.Path(folder)))
        os.chdir(process.ROOT)


if __name__ == "__main__":
    main()
