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
