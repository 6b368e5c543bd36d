"""Who may import whom, read from the imports themselves; and a few house rules.

The law is one table per question: LAYERS says which parts of the package a part
may import, OUTSIDE where an outside library may be imported.
"""

from __future__ import annotations

import ast
import pathlib
import sys
from collections.abc import Iterator

import pytest

import osc_placement

ROOT = pathlib.Path(osc_placement.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

#: part -> the parts it may import, besides itself, ``microversion`` and ``errors``. An inner
#: folder has a row of its own; a module belongs to the longest row that matches.
LAYERS: dict[str, set[str]] = {
    "errors": set(),
    "microversion": set(),
    "model": set(),
    "samples": set(),
    "client": {"model"},
    "nova": {"client", "model"},
    "neutron": {"client", "nova", "model"},
    "engine": {"model"},
    "server": {"engine", "model"},
    "plan": {"nova", "neutron", "client", "model", "workflows"},
    "workflows": {"plan", "nova", "neutron", "client", "engine", "model"},
    "v1": {"workflows", "plan", "nova", "neutron", "client", "model", "plugin"},
    "plugin": {"client", "model"},
    "testing": {"client", "engine", "model", "samples", "server", "workflows", "v1", "plugin"},
}

#: The server's public API, and who besides ``testing`` may use it: the in-process
#: transport that the plugin creates, the dry run of a reshape and the snapshot.
SERVER_API = ("osc_placement.server", "osc_placement.server.store")
SERVER_USERS = ("plugin", "workflows.reshape.sandbox", "workflows.snapshot")

#: The sample clouds are known by name only where options are read.
SAMPLES = "osc_placement.samples.sample"
SAMPLE_USERS = ("server.run", "v1.nova")

#: outside library -> the modules (by prefix) that alone may import it.
OUTSIDE: dict[str, tuple[str, ...]] = {
    "argparse": ("v1", "plugin", "server.run"),
    "cliff": ("v1",),
    "keystoneauth1": ("client", "nova", "neutron", "testing"),
    "openstack": ("client", "nova", "neutron", "testing"),
    "osc_lib": ("v1", "plugin", "client", "testing"),
    "requests": ("client", "testing"),
    "sqlite3": ("server.store",),
}

BANNED_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}
LONGEST_FILE = 400


def module_name(path: pathlib.Path) -> str:
    """``client.api`` for ``osc_placement/client/api.py``; the package itself is ````."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def imported(source: str, package: str = "") -> Iterator[str]:
    """Every name that ``source`` imports, as dotted paths, wherever the import stands.

    ``from a.b import c`` gives ``a.b.c``: whether c is a module does not matter here.
    ``package`` resolves relative imports.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base]).strip(".")
            yield from (f"{base}.{alias.name}" for alias in node.names)


def within(module: str, prefixes: tuple[str, ...]) -> bool:
    return any(module == prefix or module.startswith(prefix + ".") for prefix in prefixes)


def is_server_api(target: str) -> bool:
    """``osc_placement.server.create_app`` is; ``osc_placement.server.handlers.x`` is not."""
    parent = target.rpartition(".")[0]
    return target in SERVER_API or parent in SERVER_API or within(target, (SERVER_API[1],))


def inner_faults(module: str, target: str) -> Iterator[str]:
    """Why ``module`` of ours may not import ``target`` of ours."""
    part = module.partition(".")[0]
    goal = target.split(".")[1] if "." in target else ""
    if not part or not goal or goal in (part, "microversion", "errors") or goal.startswith("_"):
        return
    if goal in LAYERS[part]:
        return
    if goal == "server" and within(module, SERVER_USERS) and is_server_api(target):
        return
    if within(target, (SAMPLES,)) and within(module, SAMPLE_USERS):
        return
    yield f"{module} imports {target}: {part} may import {sorted(LAYERS[part]) or 'nothing'}"


def outer_faults(module: str, target: str) -> Iterator[str]:
    """Why ``module`` of ours may not import the outside ``target``."""
    library = target.partition(".")[0]
    if library in OUTSIDE and not within(module, OUTSIDE[library]):
        yield f"{module} imports {target}: only {', '.join(OUTSIDE[library])} may"
    if within(module, ("model", "microversion")) and library not in sys.stdlib_module_names:
        yield f"{module} imports {target}: the model has the standard library alone"


def faults(module: str, source: str) -> list[str]:
    package = "osc_placement." + module.rpartition(".")[0]
    found: list[str] = []
    for target in imported(source, package.strip(".")):
        ours = target == "osc_placement" or target.startswith("osc_placement.")
        found += inner_faults(module, target) if ours else outer_faults(module, target)
    return found


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_a_module_imports_only_what_its_part_may(path: pathlib.Path) -> None:
    assert faults(module_name(path), path.read_text()) == []


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_nothing_prints(path: pathlib.Path) -> None:
    prints = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert prints == [], f"{path}: print() at lines {prints}"


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_a_file_is_short_enough_to_be_read(path: pathlib.Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST_FILE


def test_every_module_is_named_after_what_it_is_about() -> None:
    assert {path.stem for path in MODULES} & BANNED_NAMES == set()


def test_every_part_of_the_package_has_its_place_in_the_law() -> None:
    parts = {module_name(path).partition(".")[0] for path in MODULES} - {"", "__main__"}
    assert parts <= set(LAYERS)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("model.provider", "import yaml"),
        ("model.provider", "from osc_placement.client import api"),
        ("client.api", "from osc_placement.workflows import plan"),
        ("client.api", "import osc_placement.server"),
        ("engine.draft", "from osc_placement.server import http"),
        ("server.app", "import requests"),
        ("server.app", "def later():\n    from osc_placement.client import api"),
        ("server.app", "from osc_placement.testing import sample"),
        ("server.app", "import sqlite3"),
        ("server.handlers.trait", "import argparse"),
        ("workflows.plan", "from cliff import lister"),
        ("workflows.plan", "from osc_placement.server import create_app"),
        ("workflows.reshape.sandbox", "from osc_placement.server.handlers import trait"),
        ("v1.trait", "from osc_placement.engine import state"),
        ("v1.trait", "from keystoneauth1 import session"),
        ("v1.trait", "from ..engine import state"),
    ],
)
def test_the_law_finds_a_forbidden_import(module: str, source: str) -> None:
    assert faults(module, source)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("model.provider", "import dataclasses"),
        ("client.api", "from osc_placement import microversion"),
        ("client.transport", "from keystoneauth1 import session"),
        ("workflows.explain", "from osc_placement.engine import state"),
        ("workflows.reshape.sandbox", "from osc_placement.server import create_app"),
        ("workflows.snapshot", "from osc_placement.server.store import sqlite"),
        ("plugin", "from osc_placement import server"),
        ("server.store.sqlite", "import sqlite3"),
        ("server.run", "from osc_placement.samples import sample"),
        ("testing.service", "from osc_placement.server import app"),
    ],
)
def test_the_law_lets_a_lawful_import_pass(module: str, source: str) -> None:
    assert faults(module, source) == []
