# SPDX-License-Identifier: Apache-2.0
"""The plugin of OpenStackClient: the API's name, its global options and its client.

The API name is our own: a client that has ``placement`` in its own tree keeps this plugin, and
skips only ``resources``. The only module that uses internals of the client manager. Every
``openstack`` command imports it, so it imports the client only in ``make_client``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from osc_placement import errors, interrupt, microversion

if TYPE_CHECKING:
    from osc_placement.client import api, transport, wsgi

# From here on: "openstack" itself does not handle Ctrl-C while it imports modules.
interrupt.install()

API_NAME = "osc_placement"
DEFAULT_API_VERSION = "1"

#: OpenStackClient loads the command group ``openstack.osc_placement.v<major>`` from the value of
#: this setting. It is never set, so the group is always v1; with the real setting, ``latest``
#: would mean a group "vlatest".
API_VERSION_OPTION = "os_placement_command_group"
API_VERSIONS = ("1",)

NEGOTIATE = "1"
LATEST = "latest"

#: YAML reads the numbers 1.10, 1.20 and 1.30 as these.
_MAY_HAVE_LOST_A_ZERO = frozenset({"1.1", "1.2", "1.3"})

#: Options of ``openstack`` that select a service: they override the file of the environment.
_CLOUD = "--os-cloud"
_SERVICE_OPTIONS = (_CLOUD, "--os-auth-url", "--os-endpoint")
_DATABASE_OPTION = "--os-placement-database"
_CONFIG_OPTION = "--os-placement-config"

_VERSION_SETTING = "placement_api_version"
_DATABASE_SETTING = "placement_database"
_CONFIG_SETTING = "placement_config"
#: The options that run Placement in this process, and their settings.
_LOCAL = {_DATABASE_OPTION: _DATABASE_SETTING, _CONFIG_OPTION: _CONFIG_SETTING}
_TIMEOUT_SETTING = "placement_timeout"
WORKERS_SETTING, RATE_SETTING = "placement_workers", "placement_rate"
RECORDING_SETTING, IN_USE_SETTING = "nova_recording", "placement_allow_running_service"

_IN_PLACE_OF_FILES = f"which {', '.join(_SERVICE_OPTIONS)} override"

#: ``{option: (metavar, environment variable, help)}``. Commands check the values of the last three:
#: "server list" must not fail for an invalid one.
_OPTIONS = {
    "--os-placement-api-version": (
        "<placement-api-version>",
        "OS_PLACEMENT_API_VERSION",
        f"Placement API version: {microversion.MINIMUM} to {microversion.MAXIMUM}, 'latest', or 1"
        " to negotiate (default: 1; Env: OS_PLACEMENT_API_VERSION; clouds.yaml:"
        " placement_api_version)",
    ),
    _DATABASE_OPTION: (
        "<file>",
        "OSC_PLACEMENT_DATABASE",
        "Run on this database file with the reference server in process: no cloud, no"
        f" endpoint, no authentication (Env: OSC_PLACEMENT_DATABASE, {_IN_PLACE_OF_FILES})",
    ),
    _CONFIG_OPTION: (
        "<file>",
        "OSC_PLACEMENT_CONFIG",
        "Run openstack-placement in process on the database of this configuration file, such as"
        " /etc/placement/placement.conf: no service, no authentication (Env:"
        f" OSC_PLACEMENT_CONFIG, {_IN_PLACE_OF_FILES}). Needs the extra 'offline'",
    ),
    "--os-placement-timeout": (
        "<seconds>",
        "",
        "Seconds to wait for a response of Placement (default: 60, or api_timeout of clouds.yaml)",
    ),
    "--os-placement-workers": (
        "<count>",
        "OS_PLACEMENT_WORKERS",
        "The most requests to Placement that run at the same time; fewer while Placement is slow"
        " or refuses requests because of its load (default: 16; Env: OS_PLACEMENT_WORKERS;"
        " clouds.yaml: placement_workers)",
    ),
    "--os-placement-rate": (
        "<count>",
        "OS_PLACEMENT_RATE",
        "The most requests to Placement that start in a second (default: no limit; Env:"
        " OS_PLACEMENT_RATE; clouds.yaml: placement_rate)",
    ),
    "--os-nova-recording": (
        "<file>",
        "OS_NOVA_RECORDING",
        "Commands about Placement read nova's and neutron's responses from this JSON file"
        ' ({"GET /v2.1/os-aggregates": ...}), to rehearse on a --os-placement-database. 12-hosts is'
        " the recording of the sample cloud (default: read the cloud; Env: OS_NOVA_RECORDING;"
        " clouds.yaml: nova_recording)",
    ),
}


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the global options. Their defaults do not override clouds.yaml.

    An option of the parser stays, such as ``--os-placement-api-version`` of a client that has
    ``placement`` in its own tree: both set the same setting.
    """
    checks: Mapping[str, dict[str, Any]] = {
        "--os-placement-api-version": {"action": _Version},
        _DATABASE_OPTION: {"type": _file_name},
        _CONFIG_OPTION: {"type": _file_name},
        "--os-placement-timeout": {"type": _seconds},
    }
    for option, (metavar, variable, text) in _OPTIONS.items():
        default = os.environ.get(variable) or None
        check = checks.get(option, {})
        with contextlib.suppress(argparse.ArgumentError):
            parser.add_argument(option, metavar=metavar, default=default, help=text, **check)
    text = f"With {_CONFIG_OPTION}: write although a service, or another program, uses the database"
    with contextlib.suppress(argparse.ArgumentError):
        in_use = global_option(IN_USE_SETTING)
        parser.add_argument(in_use, action="store_true", default=None, help=text)
    return parser


def global_option(setting: str) -> str:
    """``--os-placement-workers`` for ``placement_workers``."""
    return f"--os-{setting.replace('_', '-')}"


def make_client(instance: Any) -> api.Client:
    """The client for the settings of command line, environment and clouds.yaml."""
    from osc_placement.client import api

    settings = instance._cli_options.config
    requested, latest = requested_version(
        settings, _yaml_value(instance._cli_options, _VERSION_SETTING)
    )
    return api.Client(_transport(instance, settings), requested, latest=latest)


def _transport(instance: Any, settings: Mapping[str, Any]) -> transport.Transport:
    database, configuration = embedded_database(settings), offline_configuration(settings)
    if database and configuration:
        raise errors.PlacementError(
            f"the settings name two targets, the database file {database} and the configuration"
            f" {configuration}: check OSC_PLACEMENT_DATABASE, OSC_PLACEMENT_CONFIG and clouds.yaml"
        )
    if database:
        from osc_placement.client import connection

        return connection.embedded(database)
    if configuration:
        return _offline(configuration)
    return _over_session(instance, settings)


def embedded_database(settings: Mapping[str, Any]) -> str | None:
    """The database file of the reference server; None when commands use a service."""
    return settings.get(_DATABASE_SETTING) or None


def offline_configuration(settings: Mapping[str, Any]) -> str | None:
    """The configuration of openstack-placement that runs in process; None for another target."""
    return settings.get(_CONFIG_SETTING) or None


def prefer_named_target(options: Any, arguments: Sequence[str]) -> None:
    """Drop the files of the environment if the command line names another target.

    ``options`` are the client manager's; a file in the cloud's own entry of clouds.yaml stays
    if the command line names the cloud or an endpoint. ``arguments`` is the command line of
    ``openstack``.
    """
    if not any(options.config.get(setting) for setting in _LOCAL.values()):
        return
    named = _named(arguments)
    for option, setting in _LOCAL.items():
        if setting in options.config and named and option not in named:
            kept = None if named & _LOCAL.keys() else _yaml_value(options, setting)
            options.config[setting] = kept


def contradiction(arguments: Sequence[str]) -> str:
    """Why the command line names no single target; empty if it does."""
    given = _named(arguments)
    named = [option for option in (*_LOCAL, _CLOUD) if option in given]
    if len(named) <= 1:
        return ""
    text = f"{' and '.join(named[:2])} name two targets: give one of them"
    if _CLOUD not in named:
        return text
    return (
        f"{text}. To read nova from a cloud while Placement is a file, name the cloud with OS_CLOUD"
    )


def _named(arguments: Sequence[str]) -> frozenset[str]:
    """Which options that select a target are on the command line; not those of the environment."""
    words = {word.partition("=")[0] for word in arguments}
    return frozenset(words & {*_SERVICE_OPTIONS, *_LOCAL})


def requested_version(
    settings: Mapping[str, Any], yaml_value: object = None
) -> tuple[microversion.Microversion | None, bool]:
    """``(pinned version or None, whether "latest" is set)``.

    ``yaml_value`` is the value in clouds.yaml. Raises ValueError for an invalid version, and
    for a number of clouds.yaml whose last zero YAML may have dropped.
    """
    setting = settings.get(_VERSION_SETTING)
    if setting is None:
        return None, False
    text = _version_text(str(setting))
    if text in {NEGOTIATE, LATEST}:
        return None, text == LATEST
    if isinstance(yaml_value, float) and str(yaml_value) == text and text in _MAY_HAVE_LOST_A_ZERO:
        raise ValueError(
            f"{_VERSION_SETTING} is the number {text} in clouds.yaml, which may have been written"
            f' {text}0: put it in quotes, as in {_VERSION_SETTING}: "{text}0"'
        )
    return microversion.Microversion.parse(text), False


def _yaml_value(options: Any, setting: str) -> Any:
    """A setting in the cloud's entry of clouds.yaml, before the SDK converts it to text."""
    config = getattr(options, "_openstack_config", None)
    clouds = (getattr(config, "cloud_config", None) or {}).get("clouds") or {}
    return (clouds.get(options.name) or {}).get(setting)


class _Version(argparse.Action):
    """Checks the value of the command line only.

    The environment's value is a default. As a ``type=``, argparse would check it in every
    command, and "server list" would fail for an invalid Placement version.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        try:
            setattr(namespace, self.dest, _version_text(values))
        except ValueError as error:
            # Without the usage of "openstack", which fills a screen.
            parser.exit(2, f"{parser.prog}: error: argument {option_string}: {error}\n")


def _version_text(text: str) -> str:
    """A valid version setting, unchanged. Raises ValueError with the supported range."""
    if text in {NEGOTIATE, LATEST}:
        return text
    try:
        version = microversion.Microversion.parse(text)
    except ValueError as error:
        raise ValueError(_refusal(text)) from error
    if not microversion.MINIMUM <= version <= microversion.MAXIMUM:
        raise ValueError(_refusal(text))
    return text


def _file_name(text: str) -> str:
    """Refuse an empty file name, which would select the cloud instead."""
    if not text:
        raise argparse.ArgumentTypeError("the name of the file is empty")
    return text


def _seconds(text: str) -> float:
    """A positive number of seconds."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return seconds


def _refusal(text: str) -> str:
    hint = f"; did you mean {LATEST!r}?" if text.endswith(f".{LATEST}") else ""
    return (
        f"Placement API version {text!r} is not one of {microversion.MINIMUM} to"
        f" {microversion.MAXIMUM}, 'latest', or 1 to negotiate{hint}"
    )


def _over_session(instance: Any, settings: Mapping[str, Any]) -> transport.Transport:
    from osc_placement.client import transport

    return transport.over_session(
        instance.session,
        region=instance.region_name,
        interface=instance.interface,
        endpoint=settings.get("placement_endpoint_override"),
        place=_place(instance),
        timeout=settings.get(_TIMEOUT_SETTING)
        or instance.session.timeout
        or transport.READ_TIMEOUT,
    )


def _place(instance: Any) -> str | None:
    cloud = instance._cli_options.name
    # openstacksdk calls a cloud without a name "defaults".
    named = {"cloud": cloud if cloud != "defaults" else "", "region": instance.region_name}
    return ", ".join(f"{what} {name}" for what, name in named.items() if name) or None


def _offline(configuration: str) -> transport.Transport:
    from osc_placement.client import wsgi

    def open_app() -> wsgi.WsgiApp:
        with errors.needs_extra("offline", _CONFIG_OPTION):
            from osc_placement.offline import app
        return app.OfflineApp(configuration)

    return wsgi.in_process(open_app, place=f"the database of {os.path.abspath(configuration)}")
