# SPDX-License-Identifier: Apache-2.0
"""The folder, the ports, the programs and the environment of a lab."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import subprocess
from collections.abc import Mapping, Sequence

ROOT = pathlib.Path(__file__).parents[1]
HERE = pathlib.Path(__file__).parent

FOLDER_VARIABLE = "OSC_PLACEMENT_LAB"
PORT_VARIABLE = "OSC_PLACEMENT_LAB_PORT"
DEFAULT_PORT = 24000

#: In the order of their ports; a test starts its reference server on the port of ``embedded``.
NAMES = ("keystone", "placement", "nova", "neutron", "embedded")

PASSWORD = "lab"
REGION = "RegionOne"
#: The region whose placement is the reference server, and the region without placement.
EMBEDDED_REGION = "RegionEmbedded"
EMPTY_REGION = "RegionEmpty"


class LabError(Exception):
    """A request to the lab failed; the text has the reason."""


@dataclasses.dataclass(frozen=True)
class Place:
    """The folder of one lab, and the first of its ports."""

    folder: pathlib.Path
    first_port: int

    def path(self, *parts: str) -> pathlib.Path:
        """A file of the lab."""
        return self.folder.joinpath(*parts)

    def database(self, name: str) -> pathlib.Path:
        """An SQLite file of a service."""
        return self.path("db", f"{name}.sqlite")

    def port(self, service: str) -> int:
        """The port of a service."""
        return self.first_port + NAMES.index(service)

    def url(self, service: str, tail: str = "") -> str:
        """The address of a service."""
        return f"http://127.0.0.1:{self.port(service)}{tail}"

    def program(self, name: str) -> str:
        """A program of the lab's virtual environment."""
        return str(self.path("venv", "bin", name))

    def environment(self) -> Mapping[str, str]:
        """The environment variables of the services and programs."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("OS_")},
            "PATH": f"{self.path('venv', 'bin')}:{os.environ.get('PATH', '')}",
            "OS_KEYSTONE_CONFIG_DIR": str(self.path("etc", "keystone")),
            "OS_PLACEMENT_CONFIG_DIR": str(self.path("etc", "placement")),
            "OS_NOVA_CONFIG_DIR": str(self.path("etc", "nova")),
            # Native threads are simpler to debug than eventlet.
            "OS_NOVA_DISABLE_EVENTLET_PATCHING": "true",
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            "PYTHONWARNINGS": "ignore",
        }

    def write(self, name: str, text: str) -> None:
        """Write a file that only its owner can read."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")

    def run(self, *command: str, log: str = "setup.log", **more: str) -> None:
        """Run a program and write its output to a log; ``more`` extends its environment.

        Raises LabError when it fails.
        """
        self.path("log").mkdir(parents=True, exist_ok=True)
        path = self.path("log", log)
        with path.open("a", encoding="utf-8") as out:
            out.write(f"\n$ {' '.join(command)}\n")
            out.flush()
            code = subprocess.run(
                command, env={**self.environment(), **more}, stdout=out, stderr=out
            ).returncode
        if code:
            raise LabError(f"{pathlib.Path(command[0]).name} ended with {code}; see {path}")


def find() -> Place:
    """The lab that the environment variable names, or the lab in the checkout.

    A lab keeps its ports, because keystone's catalog contains them.
    """
    folder = pathlib.Path(os.environ.get(FOLDER_VARIABLE) or ROOT / ".lab").absolute()
    port = int(os.environ.get(PORT_VARIABLE) or DEFAULT_PORT)
    with contextlib.suppress(OSError, ValueError):
        port = int((folder / "port").read_text())
    return Place(folder, port)


def needed(services: Sequence[str] = ()) -> tuple[str, ...]:
    """``services`` and their dependencies in start order; all services by default."""
    needs = {
        "keystone": (),
        "placement": ("keystone",),
        "nova": ("keystone", "placement", "neutron"),
        "neutron": ("keystone",),
    }
    names = set(services or needs)
    names.update(*(needs[name] for name in names))
    return tuple(name for name in ("keystone", "placement", "neutron", "nova") if name in names)
