# SPDX-License-Identifier: Apache-2.0
"""The programs of this package, which handle Ctrl-C from their first import."""

from __future__ import annotations

from osc_placement import interrupt


def serve() -> int:
    """``osc-placement-server``: its exit code."""
    interrupt.install()
    from osc_placement.server import run

    return run.main()
