# SPDX-License-Identifier: Apache-2.0
"""A snapshot is the cloud: a reading command prints of it what it prints of the service.

Also where something could not be read: the save ends with an error that says so, or each answer
from the file has the same notes.
"""

from __future__ import annotations

import json
import pathlib
import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from osc_placement import testing
from osc_placement.client import service
from osc_placement.nova import api as nova_api
from tests.functional.output import test_broken_paths as broken_paths
from tests.functional.output.test_reading_commands import SERVER
from tests.support.peer import fixtures, shell, target as targets

COMMANDS = (
    "placement allocation audit",
    "placement allocation heal --dry-run",
    "placement aggregate mirror --dry-run",
    "placement provider audit",
    "placement flavor audit",
    "placement health show",
    "placement capacity show --flavor m1.small",
    "placement capacity show --flavor m1.small --keep 1",
    "placement capacity make-room --flavor m1.small",
    "placement capacity show --flavor m1.small --by zone",
    "placement capacity balance --timeout 300",
    "placement status show --check",
    "placement trait compare",
    "placement metrics write --textfile m.prom --per-host",
    "placement host check cmp-0001",
    "placement host drain cmp-0001",
    "placement upgrade check --to 34",
    "allocation candidate explain --flavor m1.small",
    f"allocation candidate explain --server {SERVER} --for live-migrate",
)

#: The paths that fail, or whose services or rights are missing.
GAPS = (
    "",
    "neutron /ports",
    "neutron /agents",
    "glance /images",
    "glance /images/{}",
    "nova /servers/{}",
    "nova /os-services",
    "nova /os-aggregates",
    "nova /os-migrations",
    "nova /os-server-groups",
    "nova /flavors/detail",
    "nova /",
)

#: The lines that say where the cloud comes from.
_SOURCE = re.compile(
    r"^(Database file:|Note: (nova|neutron)'s responses come from|Apply with|Requests|Run ).*\n?",
    re.MULTILINE,
)
#: What the save says about a path that it cannot do without.
_SAID = re.compile("it is broken|missing permission|2[.][0-9]+ is needed|older than")


def in_gaps(broken: broken_paths.Broken, status: int, old: bool) -> Callable[..., Any]:
    """The services of the recording, with one path that answers with an error status."""
    send = broken_paths.others(broken)

    def with_status(
        connection: Any, proxy: str, method: str, path: str, refused: Any, **more: Any
    ) -> Any:
        if old and path == "/":
            return {"version": {"version": "2.79"}}, {}
        try:
            return send(connection, proxy, method, path, refused, **more)
        except refused as error:
            raise refused(
                status if error.status == 503 else 404, "it is broken", url=path
            ) from error

    return with_status


def facts(outcome: shell.Outcome, source: str) -> tuple[int, Any, list[str]]:
    """The exit code, the rows, and what is said beside them, without the name of the source."""
    written = "".join(path.read_text() for path in pathlib.Path().glob("*.prom"))
    text = _SOURCE.sub("", (outcome.stderr + written).replace(source, "CLOUD"))
    return (
        outcome.code,
        _rows(_parsed(outcome.stdout.replace(source, "CLOUD"))),
        sorted(text.splitlines()),
    )


def _parsed(text: str) -> Any:
    """The rows; a command may print a page of text instead."""
    return json.loads(text) if text[:1] in ("[", "{") else text


def _rows(item: Any) -> Any:
    if isinstance(item, list):
        return [_rows(part) for part in item]
    if not isinstance(item, dict):
        return item
    return {
        key: _rows(value)
        for key, value in item.items()
        # A file has no neutron that could be written to.
        if key not in ("ports", "created", "digest", "requests", "seconds", "minutes")
        and not key.startswith("port ")
    }


@pytest.mark.seeds(6, long=200)
@fixtures.ON_ONE_TARGET
def test_a_command_prints_of_a_snapshot_what_it_prints_of_the_cloud(
    seed: int, openstack: shell.OpenStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, broken = random.Random(f"same answers {seed}"), broken_paths.Broken()
    broken.path = GAPS[seed % len(GAPS)]
    status, old = draw.choice((403, 404, 503)), draw.random() < 0.3
    monkeypatch.setattr(service, "_send_once", in_gaps(broken, status, old))
    monkeypatch.setattr(nova_api, "has_endpoint", lambda connection: True)
    monkeypatch.setattr(
        nova_api, "service_types_of_session", lambda connection: {"image"}, raising=False
    )
    with testing.LoopbackPlacement(load="12-hosts") as placement:
        live = targets.admin_options(placement.url)
        save = ("placement", "snapshot", "save", "cloud.sqlite", "--with-nova")
        saved = shell.run([*live, *save])
        if saved.code:
            assert broken.path, saved
            assert _SAID.search(saved.stderr), saved
            return
        file = ["--os-placement-database", "cloud.sqlite"]
        sources = ((live, placement.url), (file, str(pathlib.Path("cloud.sqlite").resolve())))
        for command in COMMANDS if seed == 0 else draw.sample(COMMANDS, 4):
            of_service, of_file = (
                facts(shell.run([*options, *command.split(), "-f", "json"]), source)
                for options, source in sources
            )
            assert of_file == of_service, (command, broken.path, status, old)
