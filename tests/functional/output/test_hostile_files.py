# SPDX-License-Identifier: Apache-2.0
"""Each option that reads a file, with files that have no end, another encoding or another form."""

from __future__ import annotations

import pathlib
import time

import pytest

from tests.support.peer import fixtures, shell

pytestmark = fixtures.ON_ONE_TARGET

NOVA = ("--os-nova-recording", "12-hosts")
#: ``{name: command line before the file}`` of files in JSON or of a database.
DOCUMENTS = {
    "after": (*NOVA, *["placement", "capacity", "show", "--after"]),
    "apply": ["placement", "plan", "apply"],
    "assign": (*NOVA, *["placement", "allocation", "heal", "--dry-run", "--assign"]),
    "continue": (*NOVA, *["placement", "host", "drain", "--continue"]),
    "recording": ["placement", "host", "drain", "cmp-0001", "--os-nova-recording"],
    "diff": ["placement", "snapshot", "diff", "live"],
    "reshape": ["placement", "reshape"],
    "show": ["placement", "plan", "show"],
    "since": (*NOVA, *["placement", "health", "show", "--since"]),
    "undo": ["placement", "plan", "undo"],
}
#: Of files in which every text is a setting.
SETTINGS = {
    "mute": (*NOVA, *["placement", "health", "show", "--mute"]),
    "flavor": (
        *NOVA,
        *["allocation", "candidate", "explain", "--flavor", "m1.small", "--nova-conf"],
    ),
    "release": (*NOVA, *["placement", "upgrade", "check", "--to", "2026.1", "--nova-conf"]),
    "devices": (*NOVA, *["placement", "provider", "audit", "--nova-conf"]),
}
DEVICE, UTF_16 = "device", "another encoding"
CONTENTS = {
    "deep": b"[" * 200_000,
    "deep object": b'{"GET /v2.1/servers/detail":' * 50_000,
    UTF_16: '{"a": 1}'.encode("utf-16"),
    "null": b"null",
    "list": b"[1]",
    "damaged database": b"SQLite format 3\0" + b"damaged " * 1000,
}


CASES = [
    *((name, kind) for name in DOCUMENTS for kind in (DEVICE, *CONTENTS)),
    *((name, kind) for name in SETTINGS for kind in (DEVICE, UTF_16)),
]


@pytest.mark.parametrize(("reader", "kind"), CASES)
def test_a_hostile_file_ends_in_an_error_that_names_it(
    reader: str, kind: str, openstack: shell.OpenStack
) -> None:
    path = pathlib.Path("/dev/zero" if kind == DEVICE else "hostile-file")
    if kind != DEVICE:
        path.write_bytes(CONTENTS[kind])
    command = (DOCUMENTS | SETTINGS)[reader]
    begin = time.process_time()
    outcome = openstack.run(" ".join(command), f"{'@' * (reader == 'mute')}{path}")
    assert time.process_time() - begin < 10
    assert outcome.code not in (0, 3, 4)
    assert str(path) in outcome.stderr
    assert len(outcome.stderr) < 5000
    assert "Traceback" not in outcome.stderr
