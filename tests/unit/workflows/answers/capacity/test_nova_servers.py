# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from osc_placement.nova import values
from osc_placement.workflows.answers.capacity import nova_servers


class CountedNova:
    """A nova with empty listings that keeps the paths of its requests."""

    source = ""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def ask(self, path: str, version: str) -> Any:
        self.paths.append(path.partition("?")[0])
        key = "migrations" if path.startswith("/os-migrations") else "servers"
        return {key: []}


def test_at_rest_the_moves_take_one_listing_and_none_for_a_server() -> None:
    for number, listings in ((1, 1), (5, 5), (6, 1), (200, 1)):
        nova = CountedNova()
        nodes = [
            values.ComputeNode(f"uuid {each}", f"node {each}", f"host {each}")
            for each in range(number)
        ]
        nova_servers.list_servers_on(nova, nodes, ())
        assert nova.paths == ["/servers/detail"] * listings + ["/os-migrations"]
