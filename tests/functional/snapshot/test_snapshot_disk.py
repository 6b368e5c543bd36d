# SPDX-License-Identifier: Apache-2.0
"""A full disk: no file is left of a save."""

from __future__ import annotations

import contextlib
import pathlib
import resource
import sys
from collections.abc import Iterator

import pytest

from tests.support.peer import fixtures, shell, target as targets

CLOUD = "cloud.sqlite"
SAVE = f"placement snapshot save {CLOUD}"

target = fixtures.only("embedded")


@pytest.fixture
def sample(target: targets.Target, openstack: shell.OpenStack) -> shell.OpenStack:
    target.load("12-hosts")
    return openstack


@contextlib.contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file of this process can grow beyond ``size`` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Python would keep the beginning of the bytecode of a module.
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = before


def test_no_file_is_left_of_a_save_on_a_full_disk(sample: shell.OpenStack) -> None:
    # Too little for the tables, for the records.
    for size in (64, 112):
        with full_disk(size * 1024):
            code, messages = sample.fails(SAVE)
        assert code == 1
        assert f" {CLOUD}" in messages
        assert "disk I/O error" in messages
        assert list(pathlib.Path().glob(f"{CLOUD}*")) == []
    sample.do(SAVE)
