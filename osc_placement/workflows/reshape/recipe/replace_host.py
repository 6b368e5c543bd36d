"""A compute node's provider takes over from another: renamed, or rebuilt under another UUID.

Pure. What the old root offers moves with everybody's allocations in one reshape, its
children go below the new root before, traits and aggregates come along. It is refused
unless nova says that nobody writes meanwhile and that the servers are where the new one is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from osc_placement import errors
from osc_placement.workflows.reshape import snapshot
from osc_placement.workflows.reshape.recipe import checks, read, replacement, yaml_writer

_HEAD = """\
{new} ({new_uuid}) takes over from {old} ({old_uuid}): what it offers, what {consumers} have \
of it, its traits, its aggregates and {children}.

1. nova-compute must be stopped on {hosts}; nova said that it is down and disabled when this \
was written. That nobody writes meanwhile is why --allow nova-owned is right below.
2. Look, and do it:

  openstack placement reshape FILE --allow nova-owned --dry-run
  openstack placement reshape FILE --allow nova-owned

3. On the new host /var/lib/nova/compute_id holds {new_uuid}, and nova-compute calls its node \
{new}. Start it: it finds this provider by its UUID, and writes the inventories and traits that \
the host has now. Then:

  openstack compute service set --up --enable {new_host} nova-compute"""

_RENAMED = """\
Afterwards {old} is an empty provider called {aside}. When all is well:

  openstack resource provider delete {old_uuid}"""

_DELETED = "{old} is deleted at the end; undo makes it again, with what it had."

_OTHER_HOST = """\
Nova's host aggregates name hosts, and {new_host} is another than {old_host}: openstack \
aggregate add host, then openstack placement aggregate mirror."""


def plan_replacement(
    seen: snapshot.TreeSnapshot, told: read.NovaState, request: replacement.Request
) -> yaml_writer.Recipe:
    """The recipe. Errors: InvalidInput with every reason against it."""
    settled = replacement.settle(told, request)
    consumers = checks.Consumers(seen, told, settled)
    faults = errors.InputErrors(checks.wrong_providers(seen, settled))
    for host in settled.hosts:
        faults.reasons += checks.running(told.services.get(host))
    faults.reasons += consumers.faults()
    faults.check()
    written = _Written(seen, settled)
    told_first = [*written.head(), *consumers.notes()]
    paragraphs = [text for part in told_first for text in part.split("\n\n")]
    return yaml_writer.Recipe(tuple(paragraphs), written.document())


class _Written:
    """The document and its comments."""

    def __init__(self, seen: snapshot.TreeSnapshot, settled: replacement.Settled) -> None:
        self._seen, self._settled = seen, settled
        self._node = seen.nodes[settled.old.uuid]
        self._children = [
            node.provider
            for _, node in sorted(seen.inside(), key=lambda item: item[1].provider.name)
            if node.provider.parent_uuid == settled.old.uuid
        ]

    def document(self) -> dict[str, Any]:
        """By UUIDs: names are in motion."""
        old = self._settled.old.uuid
        found: dict[str, Any] = {
            "moves": [
                {
                    "from": old,
                    "resources": dict.fromkeys(sorted(self._node.inventories), "all"),
                    "to": self._target(),
                }
            ]
        }
        if self._children:
            found["providers"] = [
                {"uuid": item.uuid, "parent": self._settled.uuid} for item in self._children
            ]
        renamed = dict(self._renamed())
        if renamed:
            found["rename"] = renamed
        if not self._settled.takes_name:
            found["delete"] = [old]
        return found

    def _target(self) -> dict[str, Any]:
        target: dict[str, Any] = {
            "name": self._settled.name,
            "uuid": self._settled.uuid,
            "parent": None,
        }
        if self._node.traits:
            target["traits"] = sorted(self._node.traits)
        if self._node.aggregates:
            target["aggregates"] = sorted(self._node.aggregates)
        return target

    def _renamed(self) -> Iterator[tuple[str, str]]:
        """The old one where its name is wanted, and children that are called after it."""
        old, new = self._settled.old.name, self._settled.name
        if self._settled.takes_name:
            yield self._settled.old.uuid, self._settled.aside
            return
        for uuid, node in self._seen.inside():
            name = node.provider.name
            below = uuid != self._settled.old.uuid and self._seen.root_of(uuid) == (
                self._settled.old.uuid
            )
            if below and name.startswith((f"{old}_", f"{old}:")):
                yield uuid, new + name.removeprefix(old)

    def head(self) -> Iterator[str]:
        """What the operator must know."""
        settled = self._settled
        told = {
            "new": yaml_writer.plain(settled.name),
            "new_uuid": settled.uuid,
            "new_host": settled.new_host,
            "old": yaml_writer.plain(settled.old.name),
            "old_uuid": settled.old.uuid,
            "old_host": settled.old_host,
            "aside": yaml_writer.plain(settled.aside),
            "children": _count(len(self._children), "child and all below it", "children"),
            "consumers": _count(len(self._seen.consumers), "consumer", "consumers"),
            "hosts": " and ".join(settled.hosts),
        }
        yield _HEAD.format(**told)
        yield (_RENAMED if settled.takes_name else _DELETED).format(**told)
        if settled.old_host not in (None, settled.new_host):
            yield _OTHER_HOST.format(**told)


def _count(number: int, one: str, many: str) -> str:
    if not number:
        return f"no {many}"
    return f"1 {one}" if number == 1 else f"{number} {many}"
