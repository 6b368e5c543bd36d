# SPDX-License-Identifier: Apache-2.0
"""What all changing commands check before they send a request."""

from __future__ import annotations

import shlex
import sys
import types
from typing import Any

import pytest
from osc_lib import exceptions

from osc_placement.v1 import audit, heal, migration, mirror, plan_command

RECORDED = {"nova_recording": "12-hosts"}


def run(command: type[plan_command.PlanCommand], *arguments: str, **settings: Any) -> int:
    """Run a command whose client fails at first use."""
    options = types.SimpleNamespace(config=settings)
    manager = types.SimpleNamespace(_cli_options=options)
    app = types.SimpleNamespace(client_manager=manager, stdout=sys.stdout)
    instance = command(app, None)  # type: ignore[arg-type]
    return instance.run(instance.get_parser("openstack").parse_args(arguments))


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (heal.HealAllocations, ()),
        (mirror.MirrorAggregates, ()),
        (audit.AuditAllocations, ("--repair",)),
        (migration.RunMigrations, ()),
    ],
)
def test_a_recording_of_nova_does_not_change_a_live_placement(
    command: type[plan_command.PlanCommand], arguments: tuple[str, ...]
) -> None:
    with pytest.raises(exceptions.CommandError, match="--allow recorded-nova"):
        run(command, *arguments, **RECORDED)
    with pytest.raises(AttributeError, match="placement"):
        run(command, *arguments, "--allow", "recorded-nova", **RECORDED)


def test_a_dry_run_may_read_a_recording() -> None:
    with pytest.raises(AttributeError, match="placement"):
        run(heal.HealAllocations, "--dry-run", **RECORDED)
    with pytest.raises(AttributeError, match="placement"):
        run(audit.AuditAllocations, **RECORDED)


def test_recorded_words_are_those_of_the_command_line() -> None:
    app = types.SimpleNamespace(client_manager=None)
    command = heal.HealAllocations(app, None)  # type: ignore[arg-type]
    parser = command.get_parser("openstack")
    line = ["--host", "a", "--host", "b c", "--check-owners", "--strategy", "pack"]
    not_recorded = ["--dry-run", "--max-count", "1", "--allow", "recorded-nova", "--instance", "s"]
    recorded = command.command_line(parser.parse_args([*line, *not_recorded]))
    assert shlex.split(recorded) == ["--server", "s", *line]


def test_an_audit_records_what_it_does_not_read() -> None:
    app = types.SimpleNamespace(client_manager=None)
    command = audit.AuditProviders(app, None)  # type: ignore[arg-type]
    parser = command.get_parser("openstack")
    assert command.command_line(parser.parse_args(["--skip-agents"])) == "--skip-agents"
