# SPDX-License-Identifier: Apache-2.0
"""Dependencies are declared, used, optional where an extra has them, and of documented versions."""

from __future__ import annotations

import configparser
import importlib.metadata
import pathlib
import re
import subprocess
import sys

import pytest
from openstackclient import shell
from packaging import requirements, utils, version

from osc_placement import errors
from osc_placement.offline import app
from osc_placement.server import run
from tests import test_architecture

ROOT = pathlib.Path(__file__).parents[1]
ROW = re.compile(r"^(\w+) +([0-9.]+) +CVE-", re.MULTILINE)
FILES = ("test-requirements.txt", "doc/requirements.txt", "benchmarks/requirements.txt")

#: Dependencies that no module imports.
NOT_IMPORTED = {
    "openstacksdk": "its connection is OpenStackClient's client_manager.sdk_connection",
    "python-openstackclient": "the program openstack, which runs the commands",
}
#: ``{package: {what it may change without notice: the test that would tell}}``.
MAY_CHANGE: dict[str, dict[str, str]] = {
    "alembic": {
        "the table and the names of migrations": (
            "functional/snapshot/test_offline.py::test_a_database_of_another_release_is_refused"
        ),
    },
    "cliff": {
        "which of two commands of one name it takes": (
            "functional/test_next_client.py::test_no_command_has_two_implementations"
        ),
        "the arguments of its formatters, and when it adds them": (
            "unit/v1/output/test_help.py"
            "::test_help_fits_80_columns_without_markup_and_begins_with_own_options"
        ),
        "how its directive for Sphinx divides a usage": (
            "test_site.py::test_no_synopsis_divides_a_metavar"
        ),
    },
    "fastjsonschema": {
        "which documents are valid": (
            "unit/server/test_bodies.py::test_a_document_is_valid_where_jsonschema_says_so"
        ),
    },
    "gabbi": {
        "its fixtures and the names of its tests": (
            "contract/test_contract.py::test_the_kit_passes_and_leaves_nothing"
        ),
    },
    "ijson": {
        "its error for a damaged file": "unit/nova/test_api.py::test_an_invalid_recording_is_named",
    },
    "jinja2": {
        "what it escapes": (
            "functional/health/test_report.py::test_no_element_or_attribute_comes_from_a_name"
        ),
    },
    "jsonschema": {
        "the texts and paths of its errors": (
            "contract/test_edges.py::test_unusual_requests_get_the_response_of_the_real_service"
        ),
        "which error of a plan is the best one": (
            "unit/plan/test_schema.py::test_an_error_names_the_place_and_quotes_little"
        ),
    },
    "keystoneauth1": {
        "where a login may be redirected to": (
            "unit/client/test_services.py::test_a_login_follows_redirects_within_its_host_only"
        ),
        "the classes of its errors": (
            "functional/test_drop_in.py::test_an_error_without_a_service_has_upstreams_classes"
        ),
        "how a session sends: timeouts, proxies, adapters": (
            "unit/client/test_services.py"
            "::test_a_slow_response_of_a_prepared_session_without_a_timeout_ends"
        ),
    },
    "keystonemiddleware": {
        "which headers are those of a validated token": (
            "unit/server/test_keystone.py"
            "::test_a_client_cannot_confirm_itself_or_change_its_roles_and_scope"
        ),
    },
    "markupsafe": {
        "which texts are markup": (
            "functional/health/test_report.py::test_no_element_or_attribute_comes_from_a_name"
        ),
    },
    "microversion-parse": {
        "which headers it accepts": (
            "contract/test_edges.py::test_unusual_requests_get_the_response_of_the_real_service"
        ),
    },
    "openstack-placement": {
        "its tables": (
            "functional/snapshot/test_snapshot_tables.py"
            "::test_a_table_of_an_unknown_release_is_named"
        ),
        "its options, and how it is loaded": (
            "functional/snapshot/test_offline.py"
            "::test_a_command_that_reads_adds_nothing_and_one_that_writes_says_what"
        ),
    },
    "openstacksdk": {
        "how clouds.yaml and the environment are read, and their private names": (
            "functional/resources/test_settings.py"
            "::test_clouds_yaml_the_environment_and_options_set_the_version_and_the_limits"
        ),
        "its adapters of nova, neutron and glance": (
            "../lab/tests/test_glance.py::test_the_properties_of_each_image_are_read"
        ),
        "its requests to Placement": "../lab/tests/test_sdk.py::test_the_tests_of_a_release_pass",
    },
    "orjson": {
        "the range of integers, which the reference server returns unchanged": (
            "unit/server/test_app.py::test_a_huge_ratio_is_returned_unchanged"
        ),
    },
    "os-resource-classes": {
        "the standard resource classes": (
            "unit/nova/test_flavor.py::test_the_standard_classes_match_os_resource_classes"
        ),
    },
    "os-traits": {
        "the standard traits": (
            "contract/test_edges.py::test_unusual_requests_get_the_response_of_the_real_service"
        ),
    },
    "osc-lib": {
        "when it asks a command for its scope and logs in": (
            "functional/resources/test_settings.py"
            "::test_the_login_of_openstack_sends_no_password_to_another_port"
        ),
        "the classes of its errors": (
            "functional/test_drop_in.py::test_a_user_without_rights_gets_upstreams_error"
        ),
    },
    "oslo-config": {
        "the errors of a configuration file": (
            "functional/snapshot/test_offline.py"
            "::test_a_configuration_that_cannot_be_used_is_reported_in_one_line"
        ),
        "options that occur several times": (
            "unit/nova/test_pci.py::test_a_nova_conf_has_several_entries"
        ),
    },
    "oslo-db": {
        "how openstack-placement's engine is made": (
            "functional/snapshot/test_offline.py"
            "::test_a_write_is_refused_while_the_database_is_in_use"
        ),
    },
    "oslo-middleware": {
        "the answer to a preflight": (
            "unit/server/test_keystone.py::test_a_cors_preflight_needs_no_token"
        ),
    },
    "oslo-policy": {
        "defaults, scopes and the place of policy files": (
            "contract/test_policy.py::test_every_role_is_allowed_what_the_real_service_allows"
        ),
    },
    "prettytable": {
        "how it draws a table": (
            "unit/v1/output/test_tables.py::test_a_table_is_drawn_as_cliff_draws_it"
        ),
    },
    "prometheus-client": {
        "the format of the exposition": (
            "unit/workflows/health/test_metrics.py::test_prometheus_itself_accepts_the_output"
        ),
    },
    "python-openstackclient": {
        "the commands, the plugins and the options that it takes over": (
            "functional/test_next_client.py::test_our_commands_stay_and_the_classic_ones_step_back"
        ),
        "that Placement is in its own tree": (
            "test_dependencies.py::test_the_client_has_no_placement_of_its_own"
        ),
        "which modules it imports before a command runs": (
            "unit/v1/test_imports.py"
            "::test_the_commands_import_no_workflow_and_no_server_and_the_plain_ones_nothing_else"
        ),
    },
    "pyyaml": {
        "what is a date, a number or a repeated key": (
            "unit/model/test_yaml_lines.py::test_dates_and_infinite_numbers_stay_text"
        ),
    },
    "requests": {
        "which redirects it follows, with which method": (
            "unit/client/test_services.py::test_no_write_follows_a_redirect_within_the_origin"
        ),
        "netrc, proxies and headers": (
            "unit/client/test_session.py::test_requests_have_the_headers_of_the_library_requests"
        ),
    },
    "rich": {
        "how a bar is drawn": (
            "unit/v1/output/test_progress.py::test_a_terminal_shows_rate_and_estimate"
        ),
    },
    "sqlalchemy": {
        "its errors": (
            "functional/snapshot/test_offline.py"
            "::test_a_file_that_is_not_a_database_is_reported_in_one_line"
        ),
        "the text of an address with a password": (
            "functional/snapshot/test_offline.py"
            "::test_the_database_is_named_without_its_password_and_with_the_release"
        ),
    },
    "urllib3": {
        "retries, and its errors for damaged responses": (
            "unit/client/test_services.py::test_a_damaged_response_is_an_error_of_the_request"
        ),
    },
    "waitress": {
        "how its server is stopped": (
            "functional/server/test_serve.py"
            "::test_a_stop_closes_every_connection_and_accepts_no_more"
        ),
    },
    "wcwidth": {
        "which characters are two columns wide": (
            "unit/v1/output/test_tables.py::test_characters_of_two_columns_count_twice"
        ),
    },
    "webob": {
        "what it accepts of a request": (
            "functional/server/test_serve.py"
            "::test_a_malformed_request_is_refused_without_internal_details"
        ),
    },
}
#: Modules that end a process, need an extra, or warn on purpose.
NOT_TRIED = {
    *("server.__main__", "server.wsgi", "http", "version"),
    *("testing.conformance.fixtures", "testing.conformance.test_conformance"),
}
#: Only pytest itself imports the pytest plugin.
IMPORTED_BY_PYTEST = "pytest"

IMPORT_ALL = """
import importlib, sys, warnings
warnings.simplefilter("error", DeprecationWarning)
for name in {optional}:
    sys.modules[name] = None
for name in {modules}:
    importlib.import_module(name)
"""


def of_package() -> dict[str, list[requirements.Requirement]]:
    """``{extra: its requirements}`` of setup.cfg; the extra of the package itself is empty."""
    config = configparser.ConfigParser(delimiters=("=",))
    config.read(ROOT / "setup.cfg")
    texts = {"": config["options"]["install_requires"], **config["options.extras_require"]}
    return {
        extra: [requirements.Requirement(line) for line in text.split("\n") if line]
        for extra, text in texts.items()
    }


def package_names() -> dict[str, requirements.Requirement]:
    """The requirements of setup.cfg by normalized name."""
    return {
        utils.canonicalize_name(item.name): item
        for items in of_package().values()
        for item in items
    }


def declared() -> dict[str, requirements.Requirement]:
    """The requirements of setup.cfg and of the requirements files, by normalized name."""
    lines = [line for name in FILES for line in (ROOT / name).read_text("utf-8").splitlines()]
    items = [requirements.Requirement(line) for line in lines if not line.startswith("#")]
    return package_names() | {utils.canonicalize_name(item.name): item for item in items}


def constraints(file: str = "constraints.txt") -> dict[str, version.Version]:
    """The versions of a constraints file."""
    lines = (ROOT / file).read_text("utf-8").splitlines()
    pairs = (line.split("==") for line in lines)
    return {utils.canonicalize_name(name): version.Version(text) for name, text in pairs}


#: What the plugin is built on, and what tests it, each with the folders that import it.
NAMED = {
    "cliff": ("cliff", "osc_placement"),
    "keystoneauth1": ("keystoneauth1", "osc_placement"),
    "osc-lib": ("osc_lib", "osc_placement"),
    "prettytable": ("prettytable", "osc_placement"),
    "pytest": ("pytest", "tests"),
    "python-openstackclient": ("openstackclient", "tests"),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_library_that_the_plugin_is_built_on_is_declared_and_imported(name: str) -> None:
    module, folder = NAMED[name]
    assert name in (package_names() if name != "pytest" else declared())
    users = [
        path
        for path in (ROOT / folder).rglob("*.py")
        if module in {text.partition(".")[0] for text in imports_of(path)}
    ]
    assert users


def imports_of(path: pathlib.Path) -> set[str]:
    """What a module imports from other packages."""
    return {*test_architecture.imports("", path.read_text("utf-8"))[1]}


def test_the_minimum_versions_are_those_of_the_documentation() -> None:
    page = (ROOT / "doc" / "source" / "install.rst").read_text("utf-8")
    minimums, rows = declared(), ROW.findall(page)
    assert len(rows) == 7
    for name, minimum in rows:
        specifier = minimums[utils.canonicalize_name(name)].specifier
        assert f">={minimum}" in map(str, specifier)


def test_constraints_have_an_allowed_version_of_every_requirement() -> None:
    installed = constraints()
    for name, requirement in declared().items():
        assert requirement.specifier.contains(installed[name])


def test_lower_constraints_are_the_minimums_of_the_package() -> None:
    minimums = {
        name: next(specifier.version for specifier in item.specifier if specifier.operator == ">=")
        for name, item in package_names().items()
    }
    lowest = {name: str(number) for name, number in constraints("lower-constraints.txt").items()}
    # The tests need the last release, and the extra "offline" is for all that are supported: see
    # lab/tests/test_older_placement.py.
    minimums["openstack-placement"] = str(constraints()["openstack-placement"])
    assert lowest == minimums


def test_only_a_release_whose_service_has_the_standard_traits_of_the_client_adds_them() -> None:
    placement = importlib.metadata.distribution("openstack-placement")
    assert int(placement.version.partition(".")[0]) == app._ALL_TRAITS_SINCE
    needed = {one.name: one for one in map(requirements.Requirement, placement.requires or ())}
    (minimum,) = package_names()["os-traits"].specifier
    assert needed["os-traits"].specifier == f">={minimum.version}"


def test_each_change_that_a_dependency_may_make_has_a_test_that_would_tell() -> None:
    assert set(MAY_CHANGE) == set(package_names())
    for tells in MAY_CHANGE.values():
        for place in tells.values():
            file, _, name = place.partition("::")
            text = (ROOT / "tests" / file).read_text("utf-8")
            assert re.search(rf"^def {name}\(", text, re.MULTILINE), place


def test_the_client_has_no_placement_of_its_own() -> None:
    """If it has: the page about/upstream.rst becomes a matter of today."""
    points = importlib.metadata.entry_points(group="openstack.cli.base")
    ignored: tuple[str, ...] = getattr(shell, "IGNORED_MODULES", ())
    assert "compute" in points.names
    assert "placement" not in points.names
    assert [name for name in ignored if name.partition(".")[0] == "osc_placement"] == []


def test_every_import_is_declared_and_every_dependency_is_used() -> None:
    outside = {
        name.partition(".")[0]
        for path in test_architecture.MODULES
        for name in test_architecture.imports("", path.read_text("utf-8"))[1]
    }
    modules = outside - sys.stdlib_module_names - {IMPORTED_BY_PYTEST}
    distributions = importlib.metadata.packages_distributions()
    imported = {utils.canonicalize_name(distributions[module][0]) for module in modules}
    assert imported | set(NOT_IMPORTED) == set(package_names())


def test_modules_need_no_extra_and_raise_no_deprecation_warning() -> None:
    extras = of_package()
    base = {utils.canonicalize_name(item.name) for item in extras[""]}
    optional = [
        module
        for module, names in importlib.metadata.packages_distributions().items()
        if (name := utils.canonicalize_name(names[0])) in package_names() and name not in base
    ]
    modules = [
        f"osc_placement.{name}".rstrip(".")
        for name in sorted(test_architecture.NAMES)
        if not name.startswith("offline") and name not in NOT_TRIED
    ]
    assert {"waitress", "oslo_policy"} <= set(optional)
    program = IMPORT_ALL.format(optional=optional, modules=modules)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("waitress", ["--port", "0"]),
        ("oslo_policy", ["--policy-file", "policy.yaml"]),
        ("oslo_middleware", ["--cors-allowed-origin", "http://lab.example.org"]),
    ],
)
def test_without_a_package_of_the_server_the_error_names_the_extra(
    module: str,
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    assert run.main(arguments) == 1
    assert "'osc-placement[server]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "has_pip", "command"),
    [
        ("pyvenv.cfg", True, "run '/a b/python' -m pip install 'osc-placement[metrics]'"),
        ("pipx_metadata.json", False, "run pipx runpip env install 'osc-placement[metrics]'"),
        ("x", False, "run uv pip install --python '/a b/python' 'osc-placement[metrics]'"),
    ],
)
def test_the_command_that_installs_an_extra_fits_the_environment(
    file: str,
    has_pip: bool,
    command: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / file).touch()
    monkeypatch.setattr("sys.prefix", str(tmp_path / "env"))
    monkeypatch.setattr("sys.executable", "/a b/python")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: has_pip or None)
    with (
        pytest.raises(errors.MissingPackage) as caught,
        errors.needs_extra("metrics", "x"),
    ):
        raise ModuleNotFoundError("No module named 'y'")
    assert str(caught.value).endswith(command)
