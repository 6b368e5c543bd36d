# SPDX-License-Identifier: Apache-2.0
"""Servers by name or UUID, as ``openstack server show`` takes them."""

from __future__ import annotations

import pytest

from osc_placement import errors, testing
from osc_placement.nova import api, servers

NOVA = testing.sample_nova("12-hosts")
LISTING = next(key for key in NOVA if key.startswith("GET /v2.1/servers/detail"))
FIRST, SECOND = NOVA[LISTING]["servers"][:2]


class CountedNova(api.RecordedNova):
    """A recording that counts what it is asked."""

    asked: list[str]

    def ask(self, path: str, version: str) -> object:
        self.asked.append(path)
        return super().ask(path, version)


def recorded(*others: dict[str, object]) -> CountedNova:
    nova = CountedNova({**NOVA, LISTING: {"servers": [FIRST, SECOND, *others]}}, "")
    nova.asked = []
    return nova


def test_a_server_has_its_name_or_its_uuid() -> None:
    for text in (FIRST["name"], FIRST["id"], FIRST["id"].upper()):
        nova = recorded()
        assert [*servers.named(nova, [text])] == [FIRST["id"]]
        assert len(nova.asked) == 1
    assert {*servers.named(recorded(), [FIRST["name"], SECOND["id"]])} == {
        FIRST["id"],
        SECOND["id"],
    }


def test_a_name_that_no_server_has_or_several_have_is_an_error() -> None:
    twin = {**SECOND, "name": FIRST["name"]}
    with pytest.raises(errors.InvalidInput, match=r"2 servers with the name or UUID .*: .*, "):
        servers.named(recorded(twin | {"id": FIRST["id"][::-1]}), [FIRST["name"]])
    with pytest.raises(errors.InvalidInput, match=r"no server with the name or UUID 'vm\.\*'"):
        servers.named(recorded(), ["vm.*"])
