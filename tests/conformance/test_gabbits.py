"""The gabbi tests that the openstack-placement wheel carries, black box, file by file.

Each file gets a server process of its own, which the fixtures seed over HTTP. The YAML
stays in the wheel. ``pytest tests/conformance --serve placement`` judges the real service:
all pass but one of basic-http, whose malformed content-length waitress answers itself.
"""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import unittest
from collections.abc import Callable
from unittest import mock

import pytest
from gabbi import handlers, suitemaker, utils

from tests.conformance import fixtures, gabbi_client, seeding
from tests.peer import process

SERVERS = {"embedded": process.EMBEDDED, "placement": process.PLACEMENT}
FILES = 79
FOLDER = "placement/tests/functional/gabbits"


def gabbits() -> list[pathlib.Path]:
    """The YAML files of the installed openstack-placement, sorted by name."""
    files = importlib.metadata.files("openstack-placement") or []
    found = [file for file in files if str(file.parent) == FOLDER and file.suffix == ".yaml"]
    return sorted(pathlib.Path(file.locate()) for file in found)


def make_suite(path: pathlib.Path, data: dict, port: int) -> unittest.TestSuite:
    return suitemaker.test_suite_from_dict(
        unittest.TestLoader(),
        path.stem,
        data,
        str(path.parent),
        "127.0.0.1",
        port,
        fixtures,
        None,
        handlers=[handler() for handler in handlers.RESPONSE_HANDLERS],
        test_loader_name="conformance",
    )


def configuration(data: dict) -> str:
    """The one server configuration that a file's fixtures ask for."""
    wanted = {getattr(fixtures, name).config for name in data.get("fixtures", ())}
    (name,) = wanted or {"default"}
    return name


@pytest.fixture(scope="session")
def http_client() -> gabbi_client.Client:
    return gabbi_client.Client()


def test_the_wheel_carries_all_the_files() -> None:
    assert len(gabbits()) == FILES


@pytest.mark.parametrize("path", gabbits(), ids=lambda path: path.stem)
def test_the_server_passes(
    path: pathlib.Path,
    http_client: gabbi_client.Client,
    tmp_path: pathlib.Path,
    pytestconfig: pytest.Config,
    record_property: Callable[[str, object], None],
) -> None:
    data = utils.load_yaml(yaml_file=str(path))
    command = SERVERS[pytestconfig.getoption("--serve")]
    result = gabbi_client.Result()
    with (
        mock.patch.dict(os.environ),
        mock.patch.object(suitemaker.httpclient, "get_http", return_value=http_client),
        process.running(command, tmp_path, configuration(data)) as url,
    ):
        seeding.configure(url, path.stem)
        suite = make_suite(path, data, int(url.rpartition(":")[2]))
        record_property("gabbi_total", suite.countTestCases())
        suite.run(result)
    record_property("gabbi_passed", result.passed)
    assert result.faults == []
