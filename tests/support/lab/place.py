"""Where a lab is: its folder, its ports, its programs, and the environment that they need."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import subprocess
from collections.abc import Mapping, Sequence

ROOT = pathlib.Path(__file__).parents[3]
HERE = pathlib.Path(__file__).parent

FOLDER_VARIABLE = "OSC_PLACEMENT_LAB"
PORT_VARIABLE = "OSC_PLACEMENT_LAB_PORT"
DEFAULT_PORT = 24000

#: In the order of their ports; ``embedded`` is for a test's own server, which the catalog names.
NAMES = ("keystone", "placement", "nova", "neutron", "embedded")

PASSWORD = "lab"
REGION = "RegionOne"
#: Where the catalog's placement is the embedded server; and where there is none.
EMBEDDED_REGION = "RegionEmbedded"
EMPTY_REGION = "RegionEmpty"


class LabError(Exception):
    """The lab cannot do what was asked; the text says why."""


@dataclasses.dataclass(frozen=True)
class Place:
    """A folder that holds everything of one lab, and the first of its ports."""

    folder: pathlib.Path
    first_port: int

    def path(self, *parts: str) -> pathlib.Path:
        """A file of the lab."""
        return self.folder.joinpath(*parts)

    def database(self, name: str) -> pathlib.Path:
        """An SQLite file of a service."""
        return self.path("db", f"{name}.sqlite")

    def port(self, service: str) -> int:
        """Where a service listens."""
        return self.first_port + NAMES.index(service)

    def url(self, service: str, tail: str = "") -> str:
        """The address of a service."""
        return f"http://127.0.0.1:{self.port(service)}{tail}"

    def program(self, name: str) -> str:
        """A program of the lab's virtual environment."""
        return str(self.path("venv", "bin", name))

    def environment(self) -> Mapping[str, str]:
        """What the services and their programs need to see."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("OS_")},
            "PATH": f"{self.path('venv', 'bin')}:{os.environ.get('PATH', '')}",
            "OS_KEYSTONE_CONFIG_DIR": str(self.path("etc", "keystone")),
            "OS_PLACEMENT_CONFIG_DIR": str(self.path("etc", "placement")),
            "OS_NOVA_CONFIG_DIR": str(self.path("etc", "nova")),
            # Threads everywhere: simpler to look into than eventlet's patches.
            "OS_NOVA_DISABLE_EVENTLET_PATCHING": "true",
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            "PYTHONWARNINGS": "ignore",
        }

    def write(self, name: str, text: str) -> None:
        """Write a file that only its owner may read."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")

    def run(self, *command: str, log: str = "setup.log", **more: str) -> None:
        """Run a program with its output in a log; ``more`` is for its environment.

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
    """The lab that the environment names, or the checkout's own.

    A lab keeps the ports that it was made with: they stand in keystone's catalog.
    """
    folder = pathlib.Path(os.environ.get(FOLDER_VARIABLE) or ROOT / ".lab").absolute()
    port = int(os.environ.get(PORT_VARIABLE) or DEFAULT_PORT)
    with contextlib.suppress(OSError, ValueError):
        port = int((folder / "port").read_text())
    return Place(folder, port)


def needed(asked: Sequence[str] = ()) -> tuple[str, ...]:
    """The services that those asked for need, each after what it needs; nothing asked is all."""
    needs = {
        "keystone": (),
        "placement": ("keystone",),
        "nova": ("keystone", "placement", "neutron"),
        "neutron": ("keystone",),
    }
    wanted = set(asked or needs)
    wanted.update(*(needs[name] for name in wanted))
    return tuple(name for name in ("keystone", "placement", "neutron", "nova") if name in wanted)
