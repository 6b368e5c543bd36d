# SPDX-License-Identifier: Apache-2.0
"""The log of the server process."""

from __future__ import annotations

import logging
import sys


def configure(*, debug: bool = False) -> None:
    """Log warnings and errors to stderr; with ``debug``, everything of this project."""
    logging.basicConfig(
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    if debug:
        logging.getLogger("osc_placement").setLevel(logging.DEBUG)
