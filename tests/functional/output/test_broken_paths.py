# SPDX-License-Identifier: Apache-2.0
"""One path of one service is broken: each reading command says so, or has its usual answer."""

from __future__ import annotations

import pathlib
import random
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from osc_placement import errors, testing
from osc_placement.client import service
from osc_placement.neutron.api import RecordedNeutron
from osc_placement.nova import api as nova_api
from osc_placement.testing import traffic
from tests.functional.output.test_reading_commands import COMMANDS as OTHERS, NOVA, SERVERS
from tests.support.peer import fixtures, shell, target as targets

COMMANDS = {
    **OTHERS,
    "drain and keep": "placement host drain cmp-0001 --keep 1",
    "flavors": "placement flavor audit",
    "heal": "placement allocation heal --dry-run",
    "keep": "placement capacity show --flavor m1.small --keep 1",
    "mirror": "placement aggregate mirror --dry-run",
    "query": "allocation candidate explain --query resources=VCPU:1",
    "save": "placement snapshot save cloud.sqlite --with-nova",
    "status": "placement status show --check",
    "upgrade": "placement upgrade check --to 34",
}


#: What a command says about a fact that it could not read.
SAID = re.compile(r"it is broken|the response is not|page without entries", re.IGNORECASE)

#: What differs in each run: times, and numbers of requests.
_CHANGING = "timestamp|seconds|ed_at|requests|nova_saved|digest|bdi>"
CHANGING = re.compile(f"^.*({_CHANGING}).*$", re.MULTILINE)

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")


class Broken:
    """The paths that a command asks for, of which one fails from some request on, for good."""

    def __init__(self) -> None:
        self.asked: dict[str, None] = {}
        self.path = ""
        self.skipped = 0
        self.reply: Callable[[str], Any] = lambda path: None

    def fails(self, path: str) -> bool:
        """Note a request; whether it fails."""
        name = _UUID.sub("{}", path.partition("?")[0])
        self.asked[name] = None
        if name != self.path:
            return False
        self.skipped -= 1
        return self.skipped < 0


def others(broken: Broken) -> Callable[..., tuple[Any, Mapping[str, str]]]:
    """Nova, neutron and glance from the recording, in place of ``service._send_once``."""
    nova, neutron = nova_api.RecordedNova(NOVA, ""), RecordedNeutron(NOVA, "")

    def answer(proxy: str, path: str) -> Any:
        if proxy == "network":
            return neutron.ask(path)
        if path == "/":
            return {"version": {"version": "2.96"}}
        shown = [item for item in SERVERS if path == f"/servers/{item['id']}"]
        return {"server": shown[0]} if shown else nova.ask(path, "")

    def send(
        connection: Any, proxy: str, method: str, path: str, refused: Any, **options: Any
    ) -> tuple[Any, Mapping[str, str]]:
        if broken.fails(f"{refused.service} {path}"):
            raise refused(503, "it is broken", url=path)
        try:
            return answer(proxy, path), {}
        except errors.NotKnown as error:
            raise refused(404, str(error), url=path) from error

    return send


@pytest.mark.parametrize("command", COMMANDS)
@fixtures.ON_ONE_TARGET
def test_a_command_never_takes_what_it_could_not_read_for_what_is_not_there(
    command: str,
    openstack: shell.OpenStack,
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
) -> None:
    """With ``--long``, every path that the command asks for; without, some of them."""
    is_long = pytestconfig.getoption("--long")
    chance, broken = random.Random(command), Broken()
    monkeypatch.setattr(service, "_send_once", others(broken))
    monkeypatch.setattr(nova_api, "has_endpoint", lambda connection: True)
    wrong: list[str] = []
    with testing.LoopbackPlacement(load="12-hosts") as placement:

        def fail(sent: traffic.Request) -> traffic.Reply | None:
            if not broken.fails(f"placement {sent.path}"):
                return None
            return chance.choice(
                [
                    traffic.Reply(503, b"it is broken"),
                    traffic.Reply(200, b'{"resource_provid'),
                    traffic.Reply(200, b"{}"),
                ]
            )

        def run() -> shell.Outcome:
            for path in [*pathlib.Path().glob("cloud.sqlite*"), *pathlib.Path().glob("*.html")]:
                path.unlink()
            outcome = shell.run([*targets.admin_options(placement.url), *COMMANDS[command].split()])
            pages = [path.read_text() for path in pathlib.Path().glob("*.html")]
            text = CHANGING.sub("", "\n".join([outcome.stdout, *pages]))
            return outcome._replace(stdout=text)

        placement.before(fail)
        usual = run()
        assert usual.stdout + usual.stderr, usual
        paths = list(broken.asked)
        for path in paths if is_long else chance.sample(paths, min(5, len(paths))):
            broken.path, broken.skipped = path, chance.choice([0, 0, 1, 3])
            outcome = run()
            assert "Traceback" not in outcome.stderr, (path, outcome)
            is_same = (outcome.code, outcome.stdout) == (usual.code, usual.stdout)
            # Words of an answer that is always incomplete do not count.
            new = {*outcome.stdout.splitlines(), *outcome.stderr.splitlines()} - {
                *usual.stdout.splitlines()
            }
            if not is_same and not any(map(SAID.search, new)):
                wrong += [f"{path} is broken:", *sorted(new), outcome.stderr]
    assert not wrong, "\n".join(wrong)
    assert len(broken.asked) > 2
