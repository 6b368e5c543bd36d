# SPDX-License-Identifier: Apache-2.0
"""Logs: their lines, and the queries in them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import pathlib
import re
import tracemalloc
from collections.abc import Callable

import pytest

from osc_placement import errors
from osc_placement.workflows.cloud import logs

QUERY = "resources=VCPU%3A1%2CMEMORY_MB%3A512&required=%21COMPUTE_STATUS_DISABLED&limit=1000"
WSGI_LOG = (
    f'2026-11-21 10:00:00.123 INFO placement.requestlog [None req-1 - - - - -] 10.0.0.1 "GET'
    f' /placement/allocation_candidates?{QUERY}" status: 200 len: 4242 microversion: 1.36'
)
COMBINED_LOG = (
    '10.0.0.1 - - [21/Nov/2026:10:00:00 +0000] "GET /allocation_candidates?resources=VCPU:1'
    ' HTTP/1.1" 200 53 "-" "nova"'
)


NOVA_LOG = (
    "2026-10-14 11:02:01.100 7 DEBUG nova.scheduler.client.report [req-1 u p - default default]"
    f" Make a GET http request to /allocation_candidates?{QUERY}, request_id is req-2. get"
    " report.py:295"
)


#: What a debug log of nova-scheduler has of one request.
DEBUG_LOG = (
    "7 DEBUG keystoneauth.session [req-1] REQ: curl -g -i -X GET"
    f' http://10.0.0.1:8778/allocation_candidates?{QUERY} -H "Accept: application/json"',
    "7 DEBUG urllib3.connectionpool [req-1] http://10.0.0.1:8778"
    f' "GET /allocation_candidates?{QUERY} HTTP/1.1" 200 None',
    "7 DEBUG keystoneauth.session [req-1] GET call to placement for"
    f" http://10.0.0.1:8778/allocation_candidates?{QUERY} used request id req-2",
)


def test_a_debug_log_has_each_request_several_times_and_it_counts_once() -> None:
    (query,) = logs.parse([*DEBUG_LOG, *DEBUG_LOG]).queries
    assert (query.text, query.count) == (QUERY, 2)
    (query,) = logs.parse([*DEBUG_LOG[:1], *DEBUG_LOG[2:]]).queries
    assert query.count == 1
    (query,) = logs.parse([COMBINED_LOG, COMBINED_LOG]).queries
    assert query.count == 2


@pytest.mark.parametrize("loggers", ["urllib3|keystoneauth", "keystoneauth", "REQ: curl"])
@pytest.mark.parametrize("release", [27, 34])
def test_a_log_of_nova_has_two_queries_of_which_one_was_sent_twice(
    release: int, loggers: str
) -> None:
    """Nova's report client wrote these lines, with the level DEBUG of keystoneauth and urllib3."""
    path = pathlib.Path(__file__).with_name(f"nova_scheduler_{release}.txt")
    lines = [line for line in path.read_text().splitlines() if re.search(loggers, line)]
    assert len(lines) in (9, 6, 3)
    source = logs.parse(lines)
    assert [query.count for query in source.queries] == [2, 1]
    assert source.ignored == 0


@pytest.mark.parametrize(
    ("line", "text", "version"),
    [
        (WSGI_LOG, QUERY, "1.36"),
        (COMBINED_LOG, "resources=VCPU:1", ""),
        (NOVA_LOG, QUERY, ""),
        ("resources=VCPU:1&limit=10", "resources=VCPU:1&limit=10", ""),
        ("?resources_COMPUTE=VCPU:1", "resources_COMPUTE=VCPU:1", ""),
        ("http://placement.example/allocation_candidates?resources=VCPU:1", "resources=VCPU:1", ""),
    ],
)
def test_a_line_has_a_query(line: str, text: str, version: str) -> None:
    (query,) = logs.parse([line]).queries
    assert (query.text, query.version) == (text, version)


@pytest.mark.parametrize(
    "line",
    [
        'placement "GET /resource_providers?name=x" status: 200',
        'placement "POST /allocation_candidates?resources=VCPU:1" status: 405',
        '{"query": "resources=VCPU:1"}',
        "hello world",
    ],
)
def test_other_lines_are_counted(line: str) -> None:
    source = logs.parse(["# a comment", "", line])
    assert (list(source.queries), source.ignored) == ([], 1)


def test_equal_queries_are_one_with_their_number() -> None:
    source = logs.parse([WSGI_LOG, COMBINED_LOG, WSGI_LOG])
    assert [(item.version, item.count) for item in source.queries] == [("1.36", 2), ("", 1)]


TEXT = "one\r\ntwo \xe9\n\nthree"


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_the_lines_of_a_log_also_of_a_compressed_one(
    compress: Callable[[bytes], bytes], tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(compress(TEXT.encode()))
    assert list(logs.lines(path)) == ["one", "two \xe9", "", "three"]


LONG = gzip.compress(os.urandom(4000))

#: ``{what is wrong: (content, what the error says)}``
UNREADABLE = {
    "binary": (b"\x7fELF\0\0", "it is binary, and no log"),
    "UTF-16": ("text".encode("utf-16"), "it is binary, and no log"),
    "not complete": (LONG[:2000], "not complete"),
    "damaged": (LONG[:100] + b"xxxx" + LONG[104:], "damaged"),
    "no gzip": (b"\x1f\x8bhello", "cannot be read"),
    "bz2 not complete": (bz2.compress(b"a" * 9999)[:40], "not complete"),
    "xz not complete": (lzma.compress(os.urandom(999))[:500], "not complete"),
    "xz damaged": (lzma.compress(b"abc")[:20] + b"xxxxxxxxxxxxxxxxxxxx", "damaged"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_log_that_cannot_be_read_is_named(kind: str, tmp_path: pathlib.Path) -> None:
    content, text = UNREADABLE[kind]
    path = tmp_path / "a.log"
    path.write_bytes(content)
    with pytest.raises(errors.PlacementError, match=text) as caught:
        list(logs.lines(path))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(("path", "text"), [("missing", "No such file"), ("/dev/zero", "a device")])
def test_what_is_no_log_file_is_named(path: str, text: str) -> None:
    with pytest.raises(errors.PlacementError, match=text):
        list(logs.lines(pathlib.Path(path)))


def test_a_log_without_line_ends_takes_little_memory(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.log.gz"
    path.write_bytes(gzip.compress(b"x" * (64 << 20)))
    tracemalloc.start()
    try:
        assert sum(map(len, logs.lines(path))) == 64 << 20
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_long_line_is_read_in_linear_time() -> None:
    for line in ('"GET ' * 100_000, "[" * 500_000, f"{'a' * 500_000}/allocation_candidates?x=1"):
        logs.parse([line])
