# SPDX-License-Identifier: Apache-2.0
"""Servers by name or UUID, as ``openstack server show`` takes them."""

from __future__ import annotations

import uuid

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


@pytest.mark.parametrize("others", [0, 8])
def test_a_server_that_no_listing_has_is_asked_for(others: int) -> None:
    """A soft-deleted one: its detail shows it, also to who asks for more than five servers."""
    hidden = {**SECOND, "id": str(uuid.UUID(int=99)), "status": "SOFT_DELETED"}
    listed = [{**SECOND, "id": str(uuid.UUID(int=number))} for number in range(others)]
    path = f"GET /v2.1{servers.server_path(hidden['id'])}"
    answers = {**NOVA, LISTING: {"servers": listed}, path: {"server": hidden}}
    wanted = {server["id"] for server in (*listed, hidden)}
    assert servers.find_servers(api.RecordedNova(answers, ""), wanted).keys() == wanted
