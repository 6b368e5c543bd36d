# SPDX-License-Identifier: Apache-2.0
"""Runs the functional tests of osc-placement 4 with the commands of this project.

``python -m tests.support.upstream FOLDER SERVER`` runs the tests in ``FOLDER/osc_placement/tests``
and prints what fails. ``FOLDER/dependencies`` has the libraries that only these tests need.
"""

from __future__ import annotations

import json
import pathlib
import sys
import threading
import unittest
from typing import Any

import requests
import requests.adapters
from placement import deploy

import osc_placement
from osc_placement import server as reference_server

PLACEMENT, EMBEDDED = "placement", "embedded"
SERVERS = (PLACEMENT, EMBEDDED)


def load_tests(folder: pathlib.Path) -> unittest.TestSuite:
    """The tests, in the package ``osc_placement.tests`` beside the modules of this project."""
    sys.path.append(str(folder / "dependencies"))
    osc_placement.__path__.append(str(folder / "osc_placement"))
    modules = sorted((folder / "osc_placement/tests/functional").glob("test_*.py"))
    names = [f"osc_placement.tests.functional.{module.stem}" for module in modules]
    return unittest.defaultTestLoader.loadTestsFromNames(names)


def load_embedded(*_: Any) -> reference_server.App:
    """Placement's ``deploy.loadapp``, for the reference server."""
    return reference_server.create_app()


def send_one_at_a_time() -> None:
    """The fixture's in-memory database has one connection, which threads cannot share."""
    lock, send = threading.RLock(), requests.adapters.HTTPAdapter.send

    def send_locked(*arguments: Any, **options: Any) -> requests.Response:
        with lock:
            return send(*arguments, **options)

    # Not with unittest.mock: oslotest ends all of its patches after each test.
    requests.adapters.HTTPAdapter.send = send_locked  # type: ignore[method-assign]


def main() -> None:
    folder, server = pathlib.Path(sys.argv[1]), sys.argv[2]
    suite = load_tests(folder)
    if server == EMBEDDED:
        deploy.loadapp = load_embedded
    else:
        send_one_at_a_time()
    load_app = deploy.loadapp
    result = unittest.TextTestRunner(verbosity=0, buffer=True).run(suite)
    failed = [str(test) for test, _ in [*result.failures, *result.errors]]
    if deploy.loadapp is not load_app:
        failed.append(f"the tests did not use the server {server} to the end")
    (folder / f"{server}.json").write_text(json.dumps({"run": result.testsRun, "failed": failed}))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
