# SPDX-License-Identifier: Apache-2.0
"""A cloud whose nova is upgraded: real services of several releases of nova, and MariaDB.

*moves.py* (see lab/tests/test_moves.py) starts and configures the services; this module selects
the release of each service of nova. Keystone, Placement and neutron's substitute stay as they are.
"""

from __future__ import annotations

import json
import os
import pathlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from lab import install, place

#: What nova's imitation of libvirt needs.
_MORE = (
    "pymysql",
    "gunicorn",
    "fixtures",
    "testtools",
    "oslotest",
    "wsgi-intercept",
    "testscenarios",
    "requests-mock",
    "ddt",
)
SERVICES = ("nova", "conductor", "scheduler")
#: Placement of 2025.1 with its names of traits, and of 2026.2.
OLD_PLACEMENT = ("openstack-placement==13.0.0", "os-traits==3.3.0", "oslo.policy<4.6")
NEW_PLACEMENT = ("openstack-placement==16.0.0",)
#: Seconds for a step of nova on a slow machine.
PATIENCE = 900


class UpgradeCloud:
    """The services of one cloud. ``moves`` is the module; ``release`` is that of a new service."""

    def __init__(self, moves: Any, release: int) -> None:
        self.moves, self.release = moves, release
        self.placement: Sequence[str] = OLD_PLACEMENT
        self._command = moves.command
        moves.command = self.command
        self._api: Any = None

    @property
    def api(self) -> Any:
        """The calls of an operator."""
        if self._api is None:
            self._api = self.moves.Api()
        return self._api

    def path(self, *parts: str) -> str:
        """A file of the cloud."""
        return str(self.moves.path(*parts))

    @property
    def _releases(self) -> place.Place:
        return place.Place(pathlib.Path(self.path("releases")), 0)

    def program(self, name: str) -> str:
        """A program of the present release."""
        python = install.release_python(self._releases, self.release, *_MORE)
        return str(pathlib.Path(python).with_name(name))

    def _placement_python(self) -> str:
        """The Python of the present release of Placement."""
        packages = (*self.placement, "gunicorn", "pymysql", "setuptools<81")
        return install.environment(self._releases, self.placement[0].replace("==", "-"), packages)

    def command(self, who: str) -> tuple[list[str], dict[str, str]]:
        """The command of a service, of the present release if it is one of nova."""
        command, more = self._command(who)
        if who in SERVICES:
            old = self.path("venv", "bin") + "/"
            command = [
                self.program(word.removeprefix(old)) if word.startswith(old) else word
                for word in command
            ]
        elif who in self.moves.hosts():
            program = str(place.HERE / "upgrade_compute.py")
            command = [
                self.program("python"),
                "-P",
                program,
                self.path("hosts", who, "hardware.json"),
                *command[3:],
            ]
        elif who == "placement":
            return [self._placement_python(), *command[1:]], more
        else:
            return command, more
        # Until 32 the services run on eventlet only.
        threads = self.release > 32 or who == "nova"
        return command, {**more, "OS_NOVA_DISABLE_EVENTLET_PATCHING": str(threads).lower()}

    def manage(self, *arguments: str) -> None:
        """Run nova-manage of the present release."""
        self.moves.cloud.run(
            self.program("nova-manage"), "--config-dir", self.path("etc", "nova"), *arguments
        )

    def up(self, hosts: Mapping[str, tuple[Mapping[str, Any], str]]) -> None:
        """Install, configure and start everything.

        ``hosts`` is ``{host: (its hardware, lines of its nova.conf)}``.
        """
        moves, cloud = self.moves, self.moves.cloud
        for name in ("log", "run", "db", "state", "etc", "rabbit", "hosts", "sql"):
            os.makedirs(self.path(name), exist_ok=True)
        moves.install()
        moves.configure(0)
        self._configure()
        for host, (hardware, lines) in hosts.items():
            self.add_host(host, hardware, lines)
        moves.start("epmd")
        moves.start("rabbitmq")
        moves.databases()
        self.sync_placement()
        self.sync()
        cloud.identity()
        cloud.start(1, ("keystone",))
        cloud.bootstrap()
        cloud.write("neutron.json", json.dumps({"ports": {}, "images": {}}))
        moves.wait_port("rabbitmq", moves.RABBIT)
        for who in ("placement", "neutron", *SERVICES, *hosts):
            self.start(who)
        self.wait_answer("placement", "neutron", "nova")
        self.wait_reported()
        self.manage("cell_v2", "discover_hosts")

    def _configure(self) -> None:
        path = pathlib.Path(self.path("etc/nova/nova.conf"))
        text = path.read_text()
        text = text.replace("moves_driver.MovesDriver", "upgrade_compute.UpgradeDriver")
        path.write_text(
            text
            + "\n[upgrade_levels]\ncompute = auto\n[quota]\ncores = -1\ninstances = -1\nram = -1\n"
        )
        for name, text in (
            ("rabbitmq.conf", "log.file.level = warning\ndisk_free_limit.absolute = 50MB\n"),
            ("plugins", "[].\n"),
            ("env", ""),
        ):
            self.moves.write(f"rabbit/{name}", text)
        for name in ("conductor", "scheduler"):
            log = self.path("log", f"{name}.log")
            self.moves.write(f"etc/{name}.conf", f"[DEFAULT]\nlog_file = {log}\n")

    def add_host(self, host: str, hardware: Mapping[str, Any], more: str = "") -> None:
        """Configure a host; ``more`` are lines of its nova.conf."""
        folder = self.path("hosts", host)
        self.moves.write(f"hosts/{host}/hardware.json", json.dumps(hardware))
        self.moves.write(
            f"hosts/{host}/nova.conf",
            f"[DEFAULT]\nhost = {host}\nstate_path = {folder}\ncpu_allocation_ratio = 1.0\n"
            f"log_file = {self.path('log', host + '.log')}\n"
            f"[oslo_concurrency]\nlock_path = {folder}\n{more}",
        )
        self.moves.write(
            f"hosts/{host}/compute_id", str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{host}.upgrade"))
        )

    def start(self, who: str) -> None:
        """Start a service."""
        self.moves.start(who)

    def wait_answer(self, *whose: str) -> None:
        """Wait for web services."""
        cloud = self.moves.cloud
        for who in whose:
            port = cloud.services(1)[who][0]
            self.moves.wait(who, lambda port=port: cloud.answers(port, "/"), PATIENCE)

    def stop(self, *whose: str) -> None:
        """Stop services."""
        for who in whose:
            self.moves.stop(who)

    def sync_placement(self) -> None:
        """Bring the schema of Placement to its present release."""
        program = pathlib.Path(self._placement_python()).with_name("placement-manage")
        self.moves.cloud.run(str(program), "--config-dir", self.path("etc/placement"), "db", "sync")

    def sync(self) -> None:
        """Bring the schemas to the present release; the first time create the cells."""
        moves = self.moves
        self.manage("api_db", "sync")
        if not os.path.exists(self.path("db", "cells")):
            self.manage("cell_v2", "map_cell0", "--database_connection", moves.mysql("nova_cell0"))
        self.manage("db", "sync")
        if not os.path.exists(self.path("db", "cells")):
            self.manage(
                "cell_v2",
                "create_cell",
                "--name",
                "cell1",
                "--transport-url",
                moves.rabbit(),
                "--database_connection",
                moves.mysql("nova_cell1"),
            )
            moves.write("db/cells", "")

    def log(self, who: str) -> str:
        """What a service wrote since its last start."""
        return pathlib.Path(self.path("log", f"{who}.log")).read_text()

    def restart(self, release: int, *whose: str) -> None:
        """Restart services of nova with a release; their logs begin anew."""
        self.stop(*whose)
        self.release = release
        for who in whose:
            pathlib.Path(self.path("log", f"{who}.log")).write_text("")
            self.start(who)

    def ends(self, who: str, text: str) -> None:
        """Wait for a service to end with a text in its log.

        Raises AssertionError for another end, TimeoutError if it goes on.
        """
        self.moves.wait(f"{who} to end", lambda: self.moves.process(who) == "stopped", PATIENCE)
        assert text in self.log(who), self.log(who)[-3000:]

    def wait_reported(self, hosts: Sequence[str] = ()) -> None:
        """Wait for nova-computes to be up, and to have a provider."""
        moves, wanted = self.moves, set(hosts or self.moves.hosts())

        def ready() -> bool:
            good = {item["host"] for item in self.api.services() if moves.reported(item)}
            return wanted <= good

        moves.wait(f"{sorted(wanted)} to report", ready, PATIENCE)
