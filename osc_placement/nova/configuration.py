# SPDX-License-Identifier: Apache-2.0
"""Reads a nova.conf with oslo.config."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from osc_placement import errors
from osc_placement.model import json_text

if TYPE_CHECKING:
    from oslo_config import cfg


@contextlib.contextmanager
def read(options: cfg.ConfigOpts, path: pathlib.Path) -> Iterator[None]:
    """``options`` have the values of a file during the block.

    Errors: PlacementError, which names the file; also for an error of oslo.config, OSError or
    ValueError of the block.
    """
    from oslo_config import cfg

    try:
        json_text.check_file(path)
        options(args=[], project="nova", default_config_files=[str(path)], default_config_dirs=[])
        yield
    except (cfg.Error, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise errors.PlacementError(f"cannot read {path} as a nova.conf: {reason}") from error
