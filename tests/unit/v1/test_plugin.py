# SPDX-License-Identifier: Apache-2.0
"""What OpenStackClient loads: options, version settings, and how little is imported."""

from __future__ import annotations

import argparse
import re
import sys
import types
from collections.abc import Mapping
from typing import Any

import pytest

from osc_placement import errors, plugin
from tests.support.versions import MAXIMUM, NEXT, RANGE


def instance(settings: Mapping[str, Any], clouds: Mapping[str, Any] | None = None) -> Any:
    """The part of a client manager that the plugin reads."""
    config = types.SimpleNamespace(cloud_config={"clouds": clouds or {}})
    options = types.SimpleNamespace(config=settings, name="a", _openstack_config=config)
    return types.SimpleNamespace(
        _cli_options=options, session=None, region_name="RegionOne", interface="public"
    )


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    return plugin.build_option_parser(parser).parse_args(arguments)


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OS_PLACEMENT_API_VERSION", "OSC_PLACEMENT_DATABASE", "OSC_PLACEMENT_CONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("text", [NEXT, "2.0", "0.9", "2", "v1", "1.x", "newest", "", "1.01.1"])
def test_an_invalid_version_is_refused_in_one_line_with_the_range(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse("--os-placement-api-version", text)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert RANGE in line


def test_a_version_with_latest_gets_a_hint() -> None:
    with pytest.raises(ValueError, match=r"'1\.latest' is not .*; did you mean 'latest'\?"):
        plugin.requested_version({"placement_api_version": "1.latest"})


def test_an_invalid_version_in_the_environment_affects_no_other_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OS_PLACEMENT_API_VERSION", NEXT)
    assert parse().os_placement_api_version == NEXT
    assert parse("--os-placement-api-version", MAXIMUM).os_placement_api_version == MAXIMUM
    with pytest.raises(ValueError, match=re.escape(f"'{NEXT}' is not one of {RANGE}")):
        plugin.requested_version({"placement_api_version": NEXT})


def test_an_empty_database_name_is_refused() -> None:
    with pytest.raises(argparse.ArgumentError, match="is empty"):
        parse("--os-placement-database", "")


@pytest.mark.parametrize(
    ("setting", "requested"),
    [
        (None, (None, False)),
        ("1.0", ((1, 0), False)),
        ("1", (None, False)),
        (1, (None, False)),
        ("latest", (None, True)),
        ("1.10", ((1, 10), False)),
        ("1.39", ((1, 39), False)),
    ],
)
def test_a_setting_pins_negotiates_or_selects_the_latest(
    setting: object, requested: object
) -> None:
    assert plugin.requested_version({"placement_api_version": setting}) == requested


def test_a_number_that_yaml_may_have_shortened_is_refused() -> None:
    with pytest.raises(ValueError, match=r'placement_api_version: "1\.10"'):
        plugin.requested_version({"placement_api_version": "1.1"}, yaml_value=1.1)
    pinned, _ = plugin.requested_version({"placement_api_version": "1.1"}, yaml_value="1.1")
    assert pinned == (1, 1)
    pinned, _ = plugin.requested_version({"placement_api_version": "1.14"}, yaml_value=1.14)
    assert pinned == (1, 14)


def test_an_embedded_client_opens_its_database_late() -> None:
    client = plugin.make_client(instance({"placement_database": "/no/such/folder/file"}))
    assert client.target == "/no/such/folder/file"
    assert not client.pinned


@pytest.mark.parametrize(
    ("line", "clouds", "database"),
    [
        ("", {}, "file"),
        ("--os-region-name a trait list", {}, "file"),
        ("--os-cloud a", {}, None),
        ("--os-cloud=a", {}, None),
        ("--os-auth-url u trait list", {}, None),
        ("--os-cloud a", {"a": {"placement_database": "its own"}}, "its own"),
    ],
)
def test_a_named_cloud_overrides_the_database_of_the_environment(
    line: str, clouds: dict[str, Any], database: str | None
) -> None:
    options = instance({"placement_database": "file"}, clouds)._cli_options
    plugin.prefer_named_target(options, line.split())
    assert plugin.embedded_database(options.config) == database


@pytest.mark.parametrize(
    ("option", "chosen"),
    [
        ("--os-placement-config", {"placement_database": None, "placement_config": "b"}),
        ("--os-placement-database", {"placement_database": "a", "placement_config": None}),
        ("--os-endpoint", {"placement_database": None, "placement_config": None}),
    ],
)
def test_an_option_overrides_the_other_files_of_the_environment(
    option: str, chosen: dict[str, str | None]
) -> None:
    options = instance({"placement_database": "a", "placement_config": "b"})._cli_options
    plugin.prefer_named_target(options, [option, "x"])
    assert options.config == chosen


def test_two_files_of_the_environment_are_refused() -> None:
    with pytest.raises(errors.PlacementError, match=r"two targets, the database file a and .* b:"):
        plugin.make_client(instance({"placement_database": "a", "placement_config": "b"}))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--os-cloud=a", "--os-placement-config=b"], "--os-placement-config and --os-cloud"),
        (
            ["--os-placement-database=a", "--os-placement-config=b"],
            "--os-placement-database and --os-placement-config",
        ),
    ],
)
def test_two_named_targets_are_a_contradiction(options: list[str], text: str) -> None:
    assert plugin.contradiction(options).startswith(f"{text} name two targets")


def test_without_openstack_placement_the_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = plugin.make_client(instance({"placement_config": "placement.conf"}))
    for name in [name for name in sys.modules if name.startswith("osc_placement.offline.")]:
        monkeypatch.delitem(sys.modules, name)
    # An earlier test may have imported it: the package has an attribute for it, too.
    monkeypatch.delattr("osc_placement.offline.app", raising=False)
    monkeypatch.setitem(sys.modules, "placement", None)
    with pytest.raises(errors.PlacementError, match=r"'osc-placement\[offline\]'"):
        client.transport.local()


def test_an_option_that_the_client_has_itself_stays() -> None:
    whole = plugin.build_option_parser(argparse.ArgumentParser())
    for option in (name for name in whole._option_string_actions if name.startswith("--os-")):
        parser = argparse.ArgumentParser()
        first = parser.add_argument(option)
        plugin.build_option_parser(parser)
        assert parser._option_string_actions[option] is first
        assert parser._option_string_actions.keys() == whole._option_string_actions.keys()


def test_the_command_group_does_not_depend_on_the_version() -> None:
    assert plugin.API_VERSION_OPTION.replace("os_", "", 1) != "placement_api_version"
    assert plugin.DEFAULT_API_VERSION in plugin.API_VERSIONS


@pytest.mark.parametrize("text", ["soon", "0", "-1", "inf", "nan"])
def test_a_timeout_is_a_positive_number_of_seconds(text: str) -> None:
    with pytest.raises(argparse.ArgumentError, match=f"'{text}' is not a positive number of sec"):
        parse(f"--os-placement-timeout={text}")
