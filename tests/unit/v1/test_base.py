"""What all commands share: versions, exit codes, errors, help, authentication."""

from __future__ import annotations

import argparse
import types
from typing import Any

import pytest
from osc_lib import exceptions

from osc_placement import errors, microversion
from osc_placement.client import api, api_errors
from osc_placement.v1 import base
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


def probe(told: api.Client | None = None, **settings: Any) -> Probe:
    manager = types.SimpleNamespace(
        placement=told, _cli_options=types.SimpleNamespace(config=settings)
    )
    return Probe(types.SimpleNamespace(client_manager=manager), None)  # type: ignore[arg-type]


ARGUMENTS = argparse.Namespace(colour=None)


def test_an_unpinned_command_runs_at_1_29_whatever_the_server_has() -> None:
    told, _ = client(versions("1.0", "1.39"), version=None)
    assert probe(told).connect().microversion == microversion.UNPINNED


def test_an_option_that_needs_more_gets_more() -> None:
    told, _ = client(versions("1.0", "1.39"), version=None)
    connected = probe(told).connect([("any traits", "--colour")], optional=["consumer types"])
    assert connected.microversion == (1, 39)


def test_wishes_are_met_as_far_as_the_server_goes() -> None:
    told, _ = client(versions("1.0", "1.35"), version=None)
    assert probe(told).connect(optional=["consumer types"]).microversion == (1, 35)


def test_an_old_server_is_spoken_to_at_what_it_has() -> None:
    told, _ = client(versions("1.0", "1.10"), version=None)
    assert probe(told).connect().microversion == (1, 10)


def test_what_an_old_server_lacks_is_refused_after_the_version_document_alone() -> None:
    told, app = client(versions("1.0", "1.5"), version=None)
    with pytest.raises(
        api_errors.UnsupportedVersion, match=r"version 1\.5; .* 1\.6 \(this command"
    ):
        probe(told).connect()
    assert [asked.path for asked in app.requests] == ["/"]


def test_a_pinned_version_is_strict_and_asks_nothing() -> None:
    told, app = client(version="1.12")
    assert probe(told).connect(optional=["consumer types"]).microversion == (1, 12)
    with pytest.raises(api_errors.UnsupportedVersion):
        probe(told).connect([("any traits", "--colour")])
    assert not app.requests


def test_everything_that_a_version_lacks_is_told_at_once_and_once_per_option() -> None:
    told, _ = client(version="1.5")
    asked = [("candidate member_of", "--a"), ("member_of repeated", "--a"), ("any traits", "--b")]
    with pytest.raises(errors.InvalidInput) as caught:
        probe(told).connect(asked)
    this, one, other = caught.value.reasons
    assert "1.6 (this command" in this
    assert "1.24 (--a" in one
    assert "1.39 (--b" in other


def test_a_failure_on_purpose_is_a_command_error() -> None:
    command = probe()
    command.raises = errors.PlacementError("no")
    with pytest.raises(exceptions.CommandError, match="no"):
        command.run(ARGUMENTS)


def test_a_command_leaves_with_its_exit_code() -> None:
    command = probe()
    assert command.run(ARGUMENTS) == 0
    command.leaves = 3
    assert command.run(ARGUMENTS) == 3


def test_a_lister_leaves_with_its_exit_code_too(capsys: pytest.CaptureFixture[str]) -> None:
    class Rows(base.Lister):
        """List"""

        def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
            self.exit_code = 6
            return ("a",), [(1,)]

    app = types.SimpleNamespace(client_manager=None, stdout=__import__("sys").stdout)
    command = Rows(app, None)  # type: ignore[arg-type]
    parsed = command.get_parser("rows").parse_args(["-f", "value"])
    assert command.run(parsed) == 6
    assert capsys.readouterr().out == "1\n"


def test_an_embedded_command_needs_no_authentication_and_closes_its_database() -> None:
    told, app = client(Reply(204))
    command = probe(told, placement_database="file")
    assert not command.auth_required
    told.delete_trait("CUSTOM_A")
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
