"""A compute node's provider replaces another: after a rename, or a rebuild with another UUID.

Pure. One reshape moves the inventories of the old root with all allocations. Before it, the
children get the new root as parent, and the new root gets the traits and aggregates. The recipe is
refused unless nova-compute is stopped and the servers are on the host of the new root.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from osc_placement import errors
from osc_placement.workflows.reshape import snapshot
from osc_placement.workflows.reshape.recipe import checks, read, replacement, yaml_writer

_HEAD = """\
{new} ({new_uuid}) replaces {old} ({old_uuid}): it gets the inventories, the allocations of \
{consumers}, the traits, the aggregates and {children}.

1. nova-compute must be stopped on {hosts}; nova reported it as down and disabled when this \
recipe was written. With nova-compute stopped, --allow nova-owned is safe below.
2. Check the plan, then apply it:

  openstack placement reshape FILE --allow nova-owned --dry-run
  openstack placement reshape FILE --allow nova-owned

3. On the new host, /var/lib/nova/compute_id must contain {new_uuid}, and the node of \
nova-compute must have the name {new}. Start nova-compute: it finds this provider by its UUID, and \
writes the present inventories and traits of the host. Then:

  openstack compute service set --up --enable {new_host} nova-compute"""

_RENAMED = """\
Afterwards {old} is an empty provider with the name {aside}. When everything works:

  openstack resource provider delete {old_uuid}"""

_DELETED = "{old} is deleted at the end; undo creates it again with everything."

_OTHER_HOST = """\
Nova's host aggregates list hosts, and {new_host} is not {old_host}: run openstack \
aggregate add host, then openstack placement aggregate mirror."""


def plan_replacement(
    trees: snapshot.TreeSnapshot, nova_state: read.NovaState, request: replacement.Request
) -> yaml_writer.Recipe:
    """The recipe. Errors: InvalidInput with all reasons against it."""
    replaced = replacement.resolve(nova_state, request)
    consumers = checks.Consumers(trees, nova_state, replaced)
    problems = errors.InputErrors(checks.providers(trees, replaced))
    for host in replaced.hosts:
        problems.reasons += checks.service(nova_state.services.get(host))
    problems.reasons += consumers.problems()
    problems.check()
    writer = _Writer(trees, replaced)
    head = "\n\n".join([*writer.head(), *consumers.notes()])
    return yaml_writer.Recipe(tuple(head.split("\n\n")), writer.document())


class _Writer:
    """Writes the document and its comments."""

    def __init__(self, trees: snapshot.TreeSnapshot, replaced: replacement.Replacement) -> None:
        self._trees, self._replaced = trees, replaced
        self._node = trees.nodes[replaced.old.uuid]
        self._children = [
            node.provider
            for _, node in sorted(trees.inside.items(), key=lambda item: item[1].provider.name)
            if node.provider.parent_uuid == replaced.old.uuid
        ]

    def document(self) -> dict[str, Any]:
        """The document. It uses UUIDs, because names change."""
        old = self._replaced.old.uuid
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
                {"uuid": item.uuid, "parent": self._replaced.uuid} for item in self._children
            ]
        renames = dict(self._renames())
        if renames:
            found["rename"] = renames
        if not self._replaced.takes_name:
            found["delete"] = [old]
        return found

    def _target(self) -> dict[str, Any]:
        target: dict[str, Any] = {
            "name": self._replaced.name,
            "uuid": self._replaced.uuid,
            "parent": None,
        }
        if self._node.traits:
            target["traits"] = sorted(self._node.traits)
        if self._node.aggregates:
            target["aggregates"] = sorted(self._node.aggregates)
        return target

    def _renames(self) -> Iterator[tuple[str, str]]:
        """The old root if the new one takes its name; else children named after the old root."""
        old, new = self._replaced.old.name, self._replaced.name
        if self._replaced.takes_name:
            yield self._replaced.old.uuid, self._replaced.old_name_after
            return
        for uuid, node in self._trees.inside.items():
            name = node.provider.name
            below = uuid != self._replaced.old.uuid and self._trees.root_of(uuid) == (
                self._replaced.old.uuid
            )
            if below and name.startswith((f"{old}_", f"{old}:")):
                yield uuid, new + name.removeprefix(old)

    def head(self) -> Iterator[str]:
        """The comments: steps and explanations."""
        replaced = self._replaced
        names = {
            "new": yaml_writer.plain(replaced.name),
            "new_uuid": replaced.uuid,
            "new_host": replaced.new_host,
            "old": yaml_writer.plain(replaced.old.name),
            "old_uuid": replaced.old.uuid,
            "old_host": replaced.old_host,
            "aside": yaml_writer.plain(replaced.old_name_after),
            "children": _count(len(self._children), "child with its descendants", "children"),
            "consumers": _count(len(self._trees.consumers), "consumer", "consumers"),
            "hosts": " and ".join(replaced.hosts),
        }
        yield _HEAD.format(**names)
        yield (_RENAMED if replaced.takes_name else _DELETED).format(**names)
        if replaced.old_host not in (None, replaced.new_host):
            yield _OTHER_HOST.format(**names)


def _count(number: int, one: str, many: str) -> str:
    if not number:
        return f"no {many}"
    return f"1 {one}" if number == 1 else f"{number} {many}"
