# SPDX-License-Identifier: Apache-2.0
"""Names of hosts: nova's, and those of providers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from osc_placement.client import api_errors
from osc_placement.nova import values
from osc_placement.workflows import selector

#: ``rack-1`` is a nova-compute for Ironic: two nodes. ``gone`` has a node without a provider.
NODES = (
    values.ComputeNode("uuid-1", "cmp-1.example.org", "cmp-1"),
    values.ComputeNode("uuid-2", "node-2", "rack-1"),
    values.ComputeNode("uuid-3", "node-3", "rack-1"),
    values.ComputeNode("uuid-4", "node-4", "gone"),
)
PROVIDERS = {"cmp-1.example.org": "uuid-1", "node-2": "uuid-2", "node-3": "recreated"}


def find(texts: Sequence[str]) -> dict[str, str]:
    by_text = {**PROVIDERS, **{uuid: uuid for uuid in PROVIDERS.values()}}
    return {text: by_text[text] for text in texts if text in by_text}


HOSTS = values.Hosts(nodes=NODES)


def test_names_and_uuids_of_providers_need_no_nova() -> None:
    found = selector.host_uuids(find, ["cmp-1.example.org", "uuid-2"], None)
    assert found == {"cmp-1.example.org": ["uuid-1"], "uuid-2": ["uuid-2"]}


def test_a_host_of_nova_has_the_providers_of_all_its_nodes() -> None:
    found = selector.host_uuids(find, ["rack-1", "cmp-1", "node-2"], HOSTS)
    assert found == {"rack-1": ["uuid-2", "recreated"], "cmp-1": ["uuid-1"], "node-2": ["uuid-2"]}
    assert list(found) == ["rack-1", "cmp-1", "node-2"]


@pytest.mark.parametrize("has_nova", [True, False])
def test_every_unknown_name_is_in_one_error(has_nova: bool) -> None:
    with pytest.raises(api_errors.UnknownProvider) as raised:
        selector.host_uuids(
            find, ["gone", "cmp-1.example.org", "absent"], HOSTS if has_nova else None
        )
    text = str(raised.value)
    assert ("'gone'" in text, "'absent'" in text, "cmp-1" in text) == (True, True, False)
    assert ("nova has no compute node" in text) is has_nova
