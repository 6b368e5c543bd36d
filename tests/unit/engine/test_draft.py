# SPDX-License-Identifier: Apache-2.0
"""What a draft reads: its own changes, as the state has them afterwards."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable
from typing import Any

import pytest

from osc_placement.engine import state
from osc_placement.engine.draft import Draft
from osc_placement.samples import sample
from osc_placement.server.store import document

NEW = "a name that no provider has"
TRAITS, CLASSES = ("CUSTOM_GONE", "CUSTOM_NEW"), ("CUSTOM_GONE_CLASS", "CUSTOM_NEW_CLASS")


def change(draw: random.Random, draft: Draft) -> None:
    """Rename and move providers, delete one, and give consumers other allocations, some twice."""
    base = draft.base
    leaves = [uuid for uuid in base.providers if not base.children[uuid]]
    gone, moved, renamed = draw.sample(leaves, 3)
    for uuid in base.consumers_of[gone]:
        draft.remove_consumer(uuid)
    draft.remove_provider(gone)
    for uuid, fields in ((moved, {"parent_uuid": renamed}), (renamed, {"name": NEW})):
        provider = draft.provider(uuid)
        assert provider is not None
        draft.bump(dataclasses.replace(provider, **fields))
    allocations = [item.allocations for item in base.consumers.values()]
    for uuid in [*draw.choices(sorted(base.consumers), k=4), "a new consumer"]:
        for _ in range(2):
            other = next(iter(base.consumers.values()))
            claimed = draw.choice([item for item in allocations if gone not in item])
            draft.put_consumer(dataclasses.replace(other, uuid=uuid, allocations=claimed))
    for put, remove, names in (
        (draft.put_trait, draft.remove_trait, TRAITS),
        (draft.put_resource_class, draft.remove_resource_class, CLASSES),
    ):
        remove(names[0])
        put(names[1])


def reads(draft: Draft, before: state.CloudState) -> dict[str, Any]:
    """Everything that a draft says about what was there before, and about what is new."""
    names = [*(item.name for item in before.providers.values()), NEW]

    def used(uuids: Iterable[str]) -> dict[str, Any]:
        amounts = {uuid: draft.used(uuid).items() for uuid in uuids}
        return {uuid: {item for item in items if item[1]} for uuid, items in amounts.items()}

    return {
        "providers": [draft.provider(uuid) for uuid in before.providers],
        "named": [draft.provider_named(name) for name in names],
        "children": [
            sorted(child.uuid for child in draft.children(uuid))
            for uuid in before.providers
            if draft.provider(uuid) is not None
        ],
        "consumers": [draft.consumer(uuid) for uuid in (*before.consumers, "a new consumer")],
        "used": used(uuid for uuid in before.providers if draft.provider(uuid) is not None),
        "traits": [draft.knows_trait(name) for name in TRAITS],
        "classes": [draft.knows_resource_class(name) for name in CLASSES],
    }


@pytest.mark.parametrize("seed", range(4))
def test_a_draft_reads_its_changes_as_the_state_has_them_afterwards(seed: int) -> None:
    draw = random.Random(f"draft {seed}")
    before = state.CloudState()
    before.apply(document.load_document(sample.sample_cloud("12-hosts"), now=0.0))
    first = Draft(before, 1.0)
    first.put_trait(TRAITS[0])
    first.put_resource_class(CLASSES[0])
    before.apply(first.changes())
    draft = Draft(before.copy(), 2.0)
    unchanged = reads(draft, before)
    change(draw, draft)
    pending = reads(draft, before)
    after = before.copy()
    after.apply(draft.changes())
    assert pending == reads(Draft(after, 3.0), before) != unchanged
