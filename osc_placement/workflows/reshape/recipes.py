# SPDX-License-Identifier: Apache-2.0
"""What all recipes share: a recipe and its YAML text, the children of a node, and their input.

The recipes for GPUs, memory encryption and PCI devices move resources of a compute node to child
providers (``plan_children``). ``read_tree``, ``servers_of`` and ``nova_state`` read Placement and
nova; the rest is pure.
"""

from __future__ import annotations

import collections
import dataclasses
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import yaml

from osc_placement import errors
from osc_placement.client import api, lookup
from osc_placement.model import provider
from osc_placement.model.name import and_more
from osc_placement.nova import servers as nova_servers, values
from osc_placement.nova.api import Nova
from osc_placement.workflows.context import ReadContext
from osc_placement.workflows.reshape import observe, snapshot

_WIDTH = 100
_INDENT = "  "


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """``document`` is the input of ``placement reshape`` without its part ``assign``.

    ``head`` are paragraphs of comment before it; a line that begins with spaces is a command
    and is not wrapped. ``assign`` is ``{consumer: target, or targets by class}``; ``undecided`` are
    the other consumers; ``comments`` has a comment per consumer.
    """

    head: tuple[str, ...]
    document: Mapping[str, Any]
    assign: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    undecided: tuple[str, ...] = ()
    comments: Mapping[str, str] = dataclasses.field(default_factory=dict)


class _Dumper(yaml.SafeDumper):
    """Writes repeated values in full."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def write(recipe: Recipe) -> str:
    """The text of a recipe: comments, moves, and assignments."""
    return "\n".join([*_head(recipe.head), *_sections(recipe.document), *_assigned(recipe), ""])


def plain(text: str) -> str:
    """A name on one line, for a comment."""
    return " ".join(text.split())


def _head(paragraphs: tuple[str, ...]) -> Iterator[str]:
    for paragraph in paragraphs:
        for line in paragraph.splitlines():
            wrapped = [line] if line.startswith(" ") else _wrapped(line)
            yield from (f"# {part}".rstrip() for part in wrapped or [""])
        yield "#"


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, _WIDTH - 2, break_on_hyphens=False, break_long_words=False)


def _sections(document: Mapping[str, Any]) -> Iterator[str]:
    for key, value in document.items():
        yield _yaml({key: value})


def _assigned(recipe: Recipe) -> Iterator[str]:
    if not (recipe.assign or recipe.undecided):
        return
    # A mapping with comments alone would be null.
    yield "assign:" if recipe.assign else "# assign:"
    mark = "  # " if recipe.assign else "#   "
    for consumer, target in recipe.assign.items():
        yield textwrap.indent(_yaml({consumer: target}), _INDENT) + _comment(recipe, consumer)
    for consumer in recipe.undecided:
        yield f"{mark}{consumer}: ?" + _comment(recipe, consumer)


def _comment(recipe: Recipe, consumer: str) -> str:
    comment = plain(recipe.comments.get(consumer, ""))
    return f"  # {comment}" if comment else ""


def _yaml(data: Mapping[str, Any]) -> str:
    text: str = yaml.dump(
        data,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=None if any(map(_is_nested, data.values())) else False,
        width=_WIDTH,
        allow_unicode=True,
    )
    return text.rstrip("\n")


def _is_nested(value: Any) -> bool:
    return isinstance(value, list | dict)


#: The trait of providers that nova-compute created.
OWNER = "OWNER_NOVA"


@dataclasses.dataclass(frozen=True, slots=True)
class Child:
    """The child ``<node>_<suffix>``, which an operator calls ``name``.

    ``resources`` are the amounts of the node's classes that move to it, ``becomes`` their new
    classes, and ``fields`` the inventory fields by new class.
    """

    name: str
    resources: Mapping[str, int]
    traits: tuple[str, ...] = ()
    becomes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fields: Mapping[str, Mapping[str, int | float]] = dataclasses.field(default_factory=dict)
    suffix: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class ChildrenRequest:
    """``evidence`` are pairs of a consumer's UUID and a child's name, as a host reports them.

    ``noun`` and ``option`` describe a child in messages. A host lists a child once for each unit
    of the class ``counted``; without that class it cannot say how much is on which child. With
    ``lists_all`` a host also lists servers and devices that do not move: these are skipped.
    """

    children: tuple[Child, ...]
    evidence: tuple[tuple[str, str], ...]
    noun: str
    option: str
    counted: str | None = None
    lists_all: bool = False


def driver_fields(total: int, max_unit: int | None = None) -> dict[str, int | float]:
    """The inventory fields that nova's libvirt driver writes for devices."""
    return {
        "reserved": 0,
        "min_unit": 1,
        "max_unit": max_unit or total,
        "step_size": 1,
        "allocation_ratio": 1.0,
    }


def describe(resources: Mapping[str, int]) -> str:
    """``4 VGPU, 2 SRIOV_NET_VF``"""
    return ", ".join(f"{amount} {name}" for name, amount in resources.items())


def plan_children(
    trees: snapshot.TreeSnapshot, root: str, request: ChildrenRequest, head: str, shown: str
) -> Recipe:
    """The recipe for the tree with this root (a UUID).

    ``head`` are its comments, with ``{node}``, and ``{children}`` for ``shown``. Errors:
    InvalidInput with all contradictions to the cloud.
    """
    consumers = _Consumers(trees, root, request)
    reasons = _contradictions(trees.nodes[root], request)
    errors.InputErrors([*reasons, *consumers.contradictions()]).check()
    node = trees.nodes[root].provider.name
    return Recipe(
        (*head.format(node=plain(node), children=shown).split("\n\n"), *consumers.skipped()),
        {"moves": [_move(node, child) for child in request.children]},
        consumers.assigned(node),
        consumers.undecided(),
        consumers.comments(),
    )


def _contradictions(node: snapshot.Node, request: ChildrenRequest) -> Iterator[str]:
    name, children = node.provider.name, request.children
    names = collections.Counter(child.name for child in children)
    for name_twice in sorted(text for text, count in names.items() if count > 1):
        yield f"the {request.noun} {name_twice} is given more than once"
    for resource_class in dict.fromkeys(one for child in children for one in child.resources):
        present = node.inventories.get(resource_class)
        moved = sum(child.resources.get(resource_class, 0) for child in children)
        if present is None:
            offered = ", ".join(sorted(node.inventories)) or "no inventory"
            yield f"{name} itself has no {resource_class}: it has {offered}"
        elif present.total != moved:
            yield (
                f"{name} has {present.total} {resource_class} and the {request.noun}s {moved}: a"
                " reshape moves resources and keeps their sum ('openstack resource provider"
                " inventory amend' changes totals)"
            )


class _Consumers:
    """The consumers of the resources that move, and the children that their hosts name."""

    def __init__(self, trees: snapshot.TreeSnapshot, root: str, request: ChildrenRequest) -> None:
        self._request = request
        self._suffixes = {child.name: child.suffix or child.name for child in request.children}
        classes = {name for child in request.children for name in child.resources}
        amounts: dict[str, dict[str, int]] = {}
        for resource_class in sorted(classes):
            for consumer, amount in trees.consumers_of(root, resource_class).items():
                amounts.setdefault(consumer, {})[resource_class] = amount
        self._amounts = dict(sorted(amounts.items()))
        self._uses: dict[str, collections.Counter[str]] = {}
        self._skipped: dict[str, None] = {}
        for consumer, child in request.evidence:
            if request.lists_all and not (consumer in amounts and child in self._suffixes):
                self._skipped[f"{consumer}={child}"] = None
            else:
                self._uses.setdefault(consumer, collections.Counter())[child] += 1

    def contradictions(self) -> Iterator[str]:
        """Evidence that does not agree with the cloud, or with the children."""
        request = self._request
        for consumer, uses in self._uses.items():
            amounts = self._amounts.get(consumer)
            if amounts is None:
                yield f"consumer {consumer} has no resources that move"
            elif unknown := sorted(uses.keys() - self._suffixes.keys()):
                yield f"consumer {consumer} uses {unknown[0]}, which is not a {request.option}"
            elif self._is_miscounted(consumer, amounts):
                yield (
                    f"consumer {consumer} uses {_counted(uses)}, and has {describe(amounts)}: list"
                    f" a {request.noun} once for each {request.counted}"
                )

    def skipped(self) -> Iterator[str]:
        """Evidence about servers and devices that do not move."""
        if self._skipped:
            yield (
                f"Not used, because these servers have no resources that move, or these"
                f" {self._request.noun}s are not given: {and_more([*self._skipped], 8)}."
            )

    def assigned(self, node: str) -> dict[str, Any]:
        """The targets of the consumers with sufficient evidence."""
        return {
            consumer: self._targets(node, self._uses[consumer])
            for consumer in self._amounts
            if self._is_decided(consumer)
        }

    def undecided(self) -> tuple[str, ...]:
        """The other consumers with several possible targets."""
        return tuple(
            consumer
            for consumer, amounts in self._amounts.items()
            if not self._is_decided(consumer) and self._has_choice(amounts)
        )

    def comments(self) -> dict[str, str]:
        """The amounts of each consumer; and what its host says, if that does not decide."""
        return {
            consumer: describe(amounts) + self._doubt(consumer)
            for consumer, amounts in self._amounts.items()
        }

    def _doubt(self, consumer: str) -> str:
        if consumer not in self._uses or self._is_decided(consumer):
            return ""
        used = " and ".join(sorted(self._uses[consumer]))
        return f" on the {self._request.noun}s {used}: give its amounts of each"

    def _is_decided(self, consumer: str) -> bool:
        is_split = self._is_split(consumer)
        return consumer in self._uses and not (is_split and self._request.counted is None)

    def _is_split(self, consumer: str) -> bool:
        return len(self._uses.get(consumer, ())) > 1

    def _is_miscounted(self, consumer: str, amounts: Mapping[str, int]) -> bool:
        """Whether the units on several children are not the amount of the consumer."""
        counted = self._request.counted
        if counted is None or not self._is_split(consumer):
            return False
        return self._uses[consumer].total() != amounts.get(counted, 0)

    def _targets(self, node: str, uses: Mapping[str, int]) -> Any:
        """The target of a consumer: one provider, or the amount on each of several."""
        named = {f"{node}_{self._suffixes[child]}": amount for child, amount in uses.items()}
        return {self._request.counted: named} if len(named) > 1 else next(iter(named))

    def _has_choice(self, amounts: Iterable[str]) -> bool:
        return any(
            sum(resource_class in child.resources for child in self._request.children) > 1
            for resource_class in amounts
        )


def _counted(uses: Mapping[str, int]) -> str:
    return " and ".join(
        f"{child} {'once' if count == 1 else f'{count} times'}"
        for child, count in sorted(uses.items())
    )


def _move(node: str, child: Child) -> dict[str, Any]:
    target: dict[str, Any] = {"name": f"{node}_{child.suffix or child.name}", "parent": node}
    if child.traits:
        target["traits"] = list(child.traits)
    if child.fields:
        target["inventories"] = {name: dict(fields) for name, fields in child.fields.items()}
    move = {"from": node, "resources": dict(child.resources), "to": target}
    return {**move, "as": dict(child.becomes)} if child.becomes else move


@dataclasses.dataclass(frozen=True, slots=True)
class NovaState:
    """Nodes; services by host; servers and migrations that are not over, by UUID."""

    nodes: tuple[values.ComputeNode, ...] = ()
    services: Mapping[str, values.ComputeService] = dataclasses.field(default_factory=dict)
    servers: Mapping[str, values.Server] = dataclasses.field(default_factory=dict)
    migrations: Mapping[str, values.Migration] = dataclasses.field(default_factory=dict)


def find_root(client: api.Client, text: str) -> provider.Provider:
    """The root provider with this name or UUID. Errors: InvalidInput."""
    root = lookup.find_providers(client, [text]).get(text)
    if root is None:
        raise errors.InvalidInput(
            [f"provider {text!r} does not exist: 'openstack resource provider list' shows all"]
        )
    if root.root_uuid not in (None, root.uuid):
        raise errors.InvalidInput([f"{text} is not a compute node: it has a parent"])
    return root


def read_tree(
    client: api.Client, text: str, context: ReadContext
) -> tuple[snapshot.TreeSnapshot, str]:
    """The tree whose root has this name or UUID, and the UUID of the root.

    Requests: those of ``find_root`` and of ``observe.read_trees``. Errors: InvalidInput.
    """
    root = find_root(client, text)
    return observe.read_trees(client, [root.uuid], context), root.uuid


def servers_of(
    nova: Nova, consumers: Collection[str]
) -> tuple[dict[str, values.Server], dict[str, values.Migration]]:
    """The servers and the current migrations of consumers, by UUID.

    Requests: one per 1000 migrations, and those of ``servers.find_servers``.
    """
    moves = {
        item.uuid: item
        for item in nova_servers.migrations(nova)
        if item.uuid in consumers or (item.server_uuid in consumers and not item.is_over)
    }
    uuids = {*consumers, *(item.server_uuid for item in moves.values())} - moves.keys()
    return nova_servers.find_servers(nova, uuids), moves


def nova_state(nova: Nova, consumers: Collection[str]) -> NovaState:
    """The hosts of nova, and the servers and migrations of these consumers.

    Requests: those of ``hosts.read_all`` and of ``servers_of``.
    """
    hosts = nova_servers.read_hosts(nova)
    servers, migrations = servers_of(nova, consumers)
    return NovaState(
        hosts.nodes, {item.host: item for item in hosts.compute_services}, servers, migrations
    )
