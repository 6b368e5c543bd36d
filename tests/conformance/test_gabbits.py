# SPDX-License-Identifier: Apache-2.0
"""The gabbi tests of the openstack-placement wheel, file by file, over HTTP.

Each file has its own server, which the fixtures fill over HTTP. The YAML stays in the
wheel. ``pytest tests/conformance --serve placement`` runs them against the real service. On both,
all pass except one in basic-http, where waitress itself answers a malformed content-length.
"""

from __future__ import annotations

import functools
import importlib.metadata
import pathlib
from collections.abc import Callable

import pytest

from tests.support.conformance import fixtures, seeding
from tests.support.peer import embedded, gabbi_suite, process

SERVERS = {
    "embedded": lambda folder, fixture: embedded.running(fixture),
    "placement": functools.partial(process.running, process.PLACEMENT),
}
FILES = 79
FOLDER = "placement/tests/functional/gabbits"
#: ``{file: tests to which waitress, and not the application, answers}``
OF_WAITRESS = {"basic-http": ["bad content length not int"]}


def gabbits() -> list[pathlib.Path]:
    """The YAML files of the installed openstack-placement, sorted by name."""
    files = importlib.metadata.files("openstack-placement") or []
    paths = [file for file in files if str(file.parent) == FOLDER and file.suffix == ".yaml"]
    return sorted(pathlib.Path(file.locate()) for file in paths)


def configuration(data: dict) -> str:
    """The server configuration that the fixtures of a file need."""
    configurations = {getattr(fixtures, name).config for name in data.get("fixtures", ())}
    (name,) = configurations or {"default"}
    return name


def test_the_wheel_has_all_files() -> None:
    assert len(gabbits()) == FILES


@pytest.mark.parametrize("path", gabbits(), ids=lambda path: path.stem)
def test_the_server_passes(
    path: pathlib.Path,
    tmp_path: pathlib.Path,
    pytestconfig: pytest.Config,
    record_property: Callable[[str, object], None],
) -> None:
    data = gabbi_suite.read(path)
    serve = SERVERS[pytestconfig.getoption("--serve")]
    with serve(tmp_path, configuration(data)) as url:
        seeding.configure(url, path.stem)
        result = gabbi_suite.run(path, data, url, fixtures)
    record_property("gabbi_total", result.total)
    record_property("gabbi_passed", result.passed)
    names = [fault.partition(":")[0] for fault in result.faults]
    assert names == OF_WAITRESS.get(path.stem, []), result.faults
