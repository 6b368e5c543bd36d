# SPDX-License-Identifier: Apache-2.0
"""What all commands share: versions, exit codes, errors; what all changing commands check first."""

from __future__ import annotations

import argparse
import shlex
import sys
import types
from typing import Any

import pytest
from osc_lib import exceptions

from osc_placement import errors, microversion
from osc_placement.client import api, api_errors
from osc_placement.v1.batch import mirror
from osc_placement.v1.common import base, plan_command
from osc_placement.v1.repair import audit, heal, migration
from tests.support.scripted import Reply, client, versions


class Probe(base.Command):
    """Do something

    A paragraph that is so long that it must be wrapped before it reaches the right edge of
    the terminal.
    """

    required_feature = "traits"
    example = "openstack probe --colour red"
    raises: Exception | None = None
    leaves = 0

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--colour")

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        if self.raises:
            raise self.raises
        self.exit_code = self.leaves


def shell(api_client: api.Client | None = None, **settings: Any) -> Any:
    """The application of a command; without a client its first use fails."""
    clients = {} if api_client is None else {"osc_placement": api_client}
    options = types.SimpleNamespace(config=settings)
    manager = types.SimpleNamespace(_cli_options=options, **clients)
    return types.SimpleNamespace(client_manager=manager, stdout=sys.stdout)


def probe(api_client: api.Client | None = None, **settings: Any) -> Probe:
    return Probe(shell(api_client, **settings), None)


ARGUMENTS = probe().get_parser("openstack probe").parse_args([])


@pytest.mark.parametrize(
    ("most", "required", "optional", "version"),
    [
        ("1.39", [], [], microversion.UNPINNED),
        ("1.39", [("any traits", "--colour")], ["consumer types"], (1, 39)),
        # Neither an optional feature nor the version of the command exceeds the server.
        ("1.35", [], ["consumer types"], (1, 35)),
        ("1.10", [], [], (1, 10)),
    ],
)
def test_an_unpinned_command_uses_the_version_of_its_options(
    most: str, required: list[tuple[str, str]], optional: list[str], version: tuple[int, int]
) -> None:
    api_client, _ = client(versions("1.0", most), version=None)
    assert probe(api_client).connect(required, optional).microversion == version


def test_a_missing_feature_is_refused_after_the_version_document() -> None:
    api_client, app = client(versions("1.0", "1.5"), version=None)
    with pytest.raises(
        api_errors.UnsupportedVersion, match=r"version 1\.5; .* 1\.6 \(this command"
    ):
        probe(api_client).connect()
    assert [request.path for request in app.requests] == ["/"]


def test_a_pinned_version_is_strict_and_sends_no_request() -> None:
    api_client, app = client(version="1.12")
    assert probe(api_client).connect(optional=["consumer types"]).microversion == (1, 12)
    with pytest.raises(api_errors.UnsupportedVersion):
        probe(api_client).connect([("any traits", "--colour")])
    assert not app.requests


def test_all_missing_features_are_reported_once_per_option() -> None:
    api_client, _ = client(version="1.5")
    required = [
        ("candidate member_of", "--a"),
        ("member_of repeated", "--a"),
        ("any traits", "--b"),
    ]
    with pytest.raises(errors.InvalidInput) as caught:
        probe(api_client).connect(required)
    this, second, other = caught.value.reasons
    assert "1.6 (this command" in this
    assert "1.24 (--a" in second
    assert "1.39 (--b" in other


def test_a_placement_error_is_a_command_error() -> None:
    command = probe()
    command.raises = errors.PlacementError("no")
    with pytest.raises(exceptions.CommandError, match="no"):
        command.run(ARGUMENTS)


def test_a_command_exits_with_its_code() -> None:
    command = probe()
    assert command.run(ARGUMENTS) == 0
    command.leaves = 3
    assert command.run(ARGUMENTS) == 3


def test_a_lister_exits_with_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    class Rows(base.Lister):
        """List"""

        def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
            self.exit_code = 6
            return ("a",), [(1,)]

    command = Rows(shell(), None)
    parsed = command.get_parser("rows").parse_args(["-f", "value"])
    assert command.run(parsed) == 6
    assert capsys.readouterr().out == "1\n"


def test_an_embedded_command_needs_no_authentication_and_closes_its_database() -> None:
    api_client, app = client(Reply(204))
    command = probe(api_client, placement_database="file")
    assert not command.auth_required
    api_client.delete_trait("CUSTOM_A")
    command.run(ARGUMENTS)
    assert app.closed == 1
    assert probe().auth_required


def test_an_option_that_a_version_requires_is_a_usage_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = probe()
    parsed = command.get_parser("openstack probe").parse_args([])
    with pytest.raises(SystemExit) as ended:
        command.require_options(parsed, ["--colour"])
    assert ended.value.code == 2
    assert "the following arguments are required: --colour" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("writes", "message"),
    [
        (False, "nothing was changed in Placement"),
        (True, "changes may have been made; check before a retry"),
    ],
)
def test_an_interrupted_command_says_whether_anything_was_changed(
    writes: bool, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted(Probe):
        """Stop"""

        def take_action(self, parsed_args: argparse.Namespace) -> None:
            connected = self.connect()
            if writes:
                connected.delete_trait("CUSTOM_A")
            raise KeyboardInterrupt

    api_client, _ = client(Reply(204))
    with pytest.raises(KeyboardInterrupt):
        Interrupted(shell(api_client), None).run(ARGUMENTS)
    assert capsys.readouterr().err == f"Interrupted: {message}\n"


RECORDED = {"nova_recording": "12-hosts"}


def run(command: type[plan_command.PlanCommand], *arguments: str, **settings: Any) -> int:
    """Run a command whose client fails at first use."""
    instance = command(shell(**settings), None)
    return instance.run(instance.get_parser("openstack").parse_args(arguments))


@pytest.mark.parametrize(
    ("command", "change", "harmless"),
    [
        (heal.HealAllocations, (), ("--dry-run",)),
        (mirror.MirrorAggregates, (), ("--dry-run",)),
        (audit.AuditAllocations, ("--repair",), ()),
        (migration.RunMigrations, (), ("--dry-run",)),
    ],
)
def test_a_recording_of_nova_does_not_change_a_live_placement(
    command: type[plan_command.PlanCommand], change: tuple[str, ...], harmless: tuple[str, ...]
) -> None:
    with pytest.raises(exceptions.CommandError, match="--allow recorded-nova"):
        run(command, *change, **RECORDED)
    for arguments in ((*change, "--allow", "recorded-nova"), harmless):
        with pytest.raises(AttributeError, match="placement"):
            run(command, *arguments, **RECORDED)


def test_recorded_words_are_those_of_the_command_line() -> None:
    command = heal.HealAllocations(shell(), None)
    parser = command.get_parser("openstack")
    line = ["--host", "a", "--host", "b c", "--check-owners", "--strategy", "pack"]
    not_recorded = ["--dry-run", "--max-count", "1", "--allow", "recorded-nova", "--instance", "s"]
    recorded = command.command_line(parser.parse_args([*line, *not_recorded]))
    options = ["--server=s", "--host=a", "--host=b c", "--check-owners", "--strategy=pack"]
    assert shlex.split(recorded) == options
    audits = audit.AuditProviders(shell(), None)
    parser = audits.get_parser("openstack")
    assert audits.command_line(parser.parse_args(["--skip-agents"])) == "--skip-agents"
