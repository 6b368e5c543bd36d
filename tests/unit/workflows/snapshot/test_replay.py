# SPDX-License-Identifier: Apache-2.0
"""Replayed queries: found in logs and lists; a cloud in a temporary file."""

from __future__ import annotations

import pathlib

import pytest

from osc_placement.model import allocation
from osc_placement.testing import service
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.snapshot import replay
from tests.support.candidates import clouds, explained

CONTEXT = ReadContext(workers=1)
HOSTS = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(3)]
SERVER = "00000000-0000-4000-8000-0000000000c0"


def test_a_service_is_saved_with_five_requests_per_provider_and_one_per_consumer(
    placement: service.InProcessPlacement,
) -> None:
    hosts = clouds.cloud(*(clouds.provider(each, VCPU=4) for each in HOSTS))
    client = explained.seeded(placement, hosts)
    held = {HOSTS[0]: {"VCPU": 2}}
    client.replace_allocations(allocation.Consumer(SERVER, held, "p", "u", None, "INSTANCE"))
    client.sent.clear()
    with replay.copied(client, CONTEXT) as copy:
        path = pathlib.Path(copy.target)
        saved = client.sent.total()
        assert copy.show_allocations(SERVER).allocations == held
        assert [each.uuid for each in copy.list_providers()] == HOSTS
    # Two listings of providers, one of traits and one of resource classes.
    assert saved == 4 + 5 * len(HOSTS) + 1
    assert client.sent.total() == saved
    assert not path.exists()


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
    (query,) = replay.parse([*DEBUG_LOG, *DEBUG_LOG]).queries
    assert (query.text, query.count) == (QUERY, 2)
    (query,) = replay.parse([*DEBUG_LOG[:1], *DEBUG_LOG[2:]]).queries
    assert query.count == 1
    (query,) = replay.parse([COMBINED_LOG, COMBINED_LOG]).queries
    assert query.count == 2


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
    (found,) = replay.parse([line]).queries
    assert (found.text, found.version) == (text, version)


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
    source = replay.parse(["# a comment", "", line])
    assert (list(source.queries), source.ignored) == ([], 1)


def test_equal_queries_are_one_with_their_number() -> None:
    source = replay.parse([WSGI_LOG, COMBINED_LOG, WSGI_LOG])
    assert [(item.version, item.count) for item in source.queries] == [("1.36", 2), ("", 1)]


def test_the_order_and_the_form_of_allocations_do_not_matter() -> None:
    old = {
        "allocation_requests": [
            {
                "allocations": [
                    {"resource_provider": {"uuid": "b"}, "resources": {"VCPU": 1}},
                    {"resource_provider": {"uuid": "a"}, "resources": {"X": 1, "DISK_GB": 2}},
                ]
            }
        ]
    }
    new = {
        "allocation_requests": [
            {
                "allocations": {
                    "a": {"resources": {"DISK_GB": 2, "X": 1}},
                    "b": {"resources": {"VCPU": 1}},
                }
            }
        ]
    }
    assert replay.candidates(old) == replay.candidates(new)
