"""Changes of a provider itself: its existence, its name and its parent."""

from __future__ import annotations

from collections.abc import Collection

from osc_placement.client import api, api_errors
from osc_placement.plan import change
from osc_placement.plan.kinds import base


def _read_provider(client: api.Client, item: change.Change) -> change.Observed:
    client.require_feature("nested providers", "changing providers")
    try:
        found = client.show_provider(item.subject.uuid)
    except api_errors.NotFound:
        return change.Observed(None, {})
    return change.Observed(found.generation, {"name": found.name, "parent": found.parent_uuid})


def _refuse_provider(
    client: api.Client, item: change.Change, _: change.Observed, __: Collection[str]
) -> list[str]:
    """What somebody has put on a provider goes with it: only an empty one does."""
    if item.after.get("name", "") is not None:
        return []
    uuid = item.subject.uuid
    has = {
        "inventories": client.list_inventories(uuid).inventories,
        "traits": client.list_provider_traits(uuid).traits,
        "aggregates": client.list_aggregates(uuid).aggregates,
    }
    return [
        f"it is not empty: it has {what} {', '.join(names)}" for what, names in has.items() if names
    ]


def _write_provider(
    client: api.Client, item: change.Change, observed: change.Observed
) -> change.Observed:
    """Made, deleted, renamed or put elsewhere: no generation guards any of it."""
    uuid = item.subject.uuid
    wanted = {**observed.facts, **item.after}
    name, parent = (None if value is None else str(value) for value in _identity(wanted))
    if name is None:
        client.delete_provider(uuid)
    elif not observed.facts:
        _create_provider(client, item, name, parent)
    elif parent == observed.facts["parent"]:
        client.update_provider(uuid, name)
    else:
        client.require_feature("re-parenting", "giving a provider another parent")
        client.update_provider(uuid, name, parent)
    return change.Observed(None, wanted)


def _create_provider(
    client: api.Client, item: change.Change, name: str, parent: str | None
) -> None:
    """Whoever runs the same plan may have made it first: then it is as it shall be."""
    try:
        client.create_provider(name, item.subject.uuid, parent)
    except api_errors.Conflict:
        if _read_provider(client, item).facts != {"name": name, "parent": parent}:
            raise


def _identity(facts: change.Facts) -> tuple[change.Value, change.Value]:
    return facts.get("name"), facts.get("parent")


TYPE = base.ChangeType(_read_provider, _write_provider, _refuse_provider)
