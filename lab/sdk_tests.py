# SPDX-License-Identifier: Apache-2.0
"""Runs the functional tests of openstacksdk for Placement, and prints the result as JSON.

It runs with the Python of an environment with openstacksdk; OS_CLOUD and the variables
OPENSTACKSDK_*_CLOUD name the clouds.
"""

from __future__ import annotations

import json
import pathlib
import unittest

from openstack.tests.functional.placement import v1


def main() -> None:
    folder = pathlib.Path(v1.__path__[0])
    names = [f"{v1.__name__}.{path.stem}" for path in sorted(folder.glob("test_*.py"))]
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    failed = [str(test) for test, _ in [*result.failures, *result.errors]]
    skipped = [f"{test}: {reason}" for test, reason in result.skipped]
    print(json.dumps({"run": result.testsRun, "failed": failed, "skipped": skipped}))


if __name__ == "__main__":
    main()
