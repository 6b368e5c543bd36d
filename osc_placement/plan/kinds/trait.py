"""Changes of the list of traits: whether a custom trait exists."""

from __future__ import annotations

from osc_placement.client import api
from osc_placement.plan import change
from osc_placement.plan.kinds import base


def _read_trait(client: api.Client, item: change.Change) -> change.Observed:
    name = item.subject.uuid
    return change.Observed(None, {name: client.trait_exists(name)})


def _write_trait(client: api.Client, item: change.Change, _: change.Observed) -> change.Observed:
    if item.after[item.subject.uuid]:
        client.create_trait(item.subject.uuid)
    else:
        client.delete_trait(item.subject.uuid)
    return change.Observed(None, item.after)


TYPE = base.ChangeType(_read_trait, _write_trait)
