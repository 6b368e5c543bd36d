# SPDX-License-Identifier: Apache-2.0
"""The reference server for tests: ``python -m tests.support.peer.embedded PORT``.

Converts PLACEMENT_FIXTURE (see tests/support/peer/placement.py) to the server's options.
"""

from __future__ import annotations

import os
import pathlib
import sys

from osc_placement.server import run

OPTIONS: dict[str, list[str]] = {
    "default": ["--legacy-rbac"],
    "legacy-rbac": ["--legacy-rbac"],
    "secure-rbac": [],
    "open-policy": [
        "--legacy-rbac",
        "--policy-file",
        str(pathlib.Path(__file__).with_name("open-policy.yaml")),
    ],
    "breadth-first": [
        "--legacy-rbac",
        "--max-allocation-candidates",
        "5",
        "--allocation-candidates-generation-strategy",
        "breadth-first",
    ],
    "cors": ["--legacy-rbac", "--cors-allowed-origin", "http://valid.example.com"],
}


def main() -> None:
    options = OPTIONS[os.environ.get("PLACEMENT_FIXTURE", "default")]
    sys.exit(run.main(["--port", sys.argv[1], *options]))


if __name__ == "__main__":
    main()
