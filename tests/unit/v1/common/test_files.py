# SPDX-License-Identifier: Apache-2.0
"""Files that an operator names and that cannot be read: one error, which names the file."""

from __future__ import annotations

import argparse
import pathlib

import pytest

from osc_placement import errors
from osc_placement.nova import provider_config
from osc_placement.v1.common import arguments
from osc_placement.v1.health import health


@pytest.fixture
def encoded(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "encoded"
    path.write_text("missing\n", encoding="utf-16")
    return path


@pytest.mark.parametrize("name", ["/dev/zero", "missing", "encoded"])
def test_a_file_that_is_no_text_is_named(
    name: str, encoded: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    path = encoded if name == "encoded" else tmp_path / name
    with pytest.raises(errors.PlacementError, match=str(path)):
        arguments.read_file(path)
    with pytest.raises(errors.InvalidInput, match=str(path)):
        provider_config.read([path])
    with pytest.raises(argparse.ArgumentTypeError, match=str(path)):
        health._mutes(f"@{path}")
