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
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import yaml

from osc_placement import errors
from osc_placement.client import api, lookup
from osc_placement.model import provider
from osc_placement.model.name import and_more
from osc_placement.nova import servers as nova_servers, values
from osc_placement.nova.api import Nova
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.reshape import observe, snapshot

_WIDTH = 100
_WRAPPER = textwrap.TextWrapper(_WIDTH - 2, break_on_hyphens=False, break_long_words=False)


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
    sections = [_yaml({key: value}) for key, value in recipe.document.items()]
    return "\n".join([*_head(recipe.head), *sections, *_assigned(recipe), ""])


def plain(text: str) -> str:
    """A name on one line, for a comment."""
    return " ".join(text.split())


def _head(paragraphs: tuple[str, ...]) -> Iterator[str]:
    for paragraph in paragraphs:
        for line in paragraph.splitlines():
            wrapped = [line] if line.startswith(" ") else _WRAPPER.wrap(line)
            yield from (f"# {part}".rstrip() for part in wrapped or [""])
        yield "#"


def _assigned(recipe: Recipe) -> Iterator[str]:
    if not (recipe.assign or recipe.undecided):
        return
    # A mapping with comments alone would be null.
    yield "assign:" if recipe.assign else "# assign:"
    mark = "  # " if recipe.assign else "#   "
    for consumer, target in recipe.assign.items():
        yield textwrap.indent(_yaml({consumer: target}), "  ") + _comment(recipe, consumer)
    for consumer in recipe.undecided:
        yield f"{mark}{consumer}: ?" + _comment(recipe, consumer)


def _comment(recipe: Recipe, consumer: str) -> str:
    comment = plain(recipe.comments.get(consumer, ""))
    return f"  # {comment}" if comment else ""


def _yaml(data: Mapping[str, Any]) -> str:
    is_nested = any(isinstance(value, list | dict) for value in data.values())
    text: str = yaml.dump(
        data,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=None if is_nested else False,
        width=_WIDTH,
        allow_unicode=True,
    )
    return text.rstrip("\n")


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

    ``noun`` is a child in messages, and its option is ``--<noun>``. A host lists a child once for
    each unit of the class ``counted``; without that class it cannot say how much is on which child.
    With ``lists_all`` a host also lists servers and devices that do not move: these are skipped.
    """

    children: tuple[Child, ...]
    evidence: tuple[tuple[str, str], ...]
    noun: str
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
    node = trees.nodes[root].provider.name
    amounts = _amounts(trees, root, request)
    uses, skipped = _uses(amounts, request)
    reasons = _contradictions(trees.nodes[root], request)
    errors.InputErrors([*reasons, *_contradicted(uses, amounts, request)]).check()
    children = collections.Counter(name for child in request.children for name in child.resources)
    assign: dict[str, Any] = {}
    undecided = []
    comments = {}
    for consumer, resources in amounts.items():
        comments[consumer] = describe(resources)
        used = uses.get(consumer, collections.Counter())
        if len(used) == 1 or (used and request.counted is not None):
            assign[consumer] = _target(node, used, request)
            continue
        if used:
            names = " and ".join(sorted(used))
            comments[consumer] += f" on the {request.noun}s {names}: give its amounts of each"
        if any(children[name] > 1 for name in resources):
            undecided.append(consumer)
    paragraphs = head.format(node=plain(node), children=shown).split("\n\n")
    if skipped:
        paragraphs.append(
            "Not used, because these servers have no resources that move, or these"
            f" {request.noun}s are not given: {and_more(skipped, 8)}."
        )
    document = {"moves": [_move(node, child) for child in request.children]}
    return Recipe(tuple(paragraphs), document, assign, tuple(undecided), comments)


def _contradictions(node: snapshot.Node, request: ChildrenRequest) -> Iterator[str]:
    name, children = node.provider.name, request.children
    names = collections.Counter(child.name for child in children)
    for name_twice in sorted(text for text, count in names.items() if count > 1):
        yield f"the {request.noun} {name_twice} is given more than once"
    for resource_class in dict.fromkeys(
        resource for child in children for resource in child.resources
    ):
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


#: ``{consumer: {class: amount}}`` of the resources that move, consumers sorted
Amounts = Mapping[str, Mapping[str, int]]


def _amounts(trees: snapshot.TreeSnapshot, root: str, request: ChildrenRequest) -> Amounts:
    amounts: dict[str, dict[str, int]] = {}
    for name in sorted({name for child in request.children for name in child.resources}):
        for consumer, amount in trees.consumers_of(root, name).items():
            amounts.setdefault(consumer, {})[name] = amount
    return dict(sorted(amounts.items()))


#: ``{consumer: {child: how often its host lists it}}``
Uses = Mapping[str, collections.Counter[str]]


def _uses(amounts: Amounts, request: ChildrenRequest) -> tuple[Uses, list[str]]:
    """What the evidence says; and the evidence on servers and devices that do not move."""
    names = {child.name for child in request.children}
    uses: dict[str, collections.Counter[str]] = {}
    skipped: dict[str, None] = {}
    for consumer, child in request.evidence:
        if request.lists_all and not (consumer in amounts and child in names):
            skipped[f"{consumer}={child}"] = None
        else:
            uses.setdefault(consumer, collections.Counter())[child] += 1
    return uses, list(skipped)


def _contradicted(uses: Uses, amounts: Amounts, request: ChildrenRequest) -> Iterator[str]:
    """Evidence that does not agree with the cloud, or with the children."""
    names = {child.name for child in request.children}
    for consumer, used in uses.items():
        counted = amounts.get(consumer, {}).get(request.counted or "")
        if consumer not in amounts:
            yield f"consumer {consumer} has no resources that move"
        elif unknown := sorted(used.keys() - names):
            yield f"consumer {consumer} uses {unknown[0]}, which is not a --{request.noun}"
        elif request.counted is not None and len(used) > 1 and used.total() != counted:
            yield (
                f"consumer {consumer} uses {_counted(used)}, and has {describe(amounts[consumer])}:"
                f" list a {request.noun} once for each {request.counted}"
            )


def _target(node: str, used: Mapping[str, int], request: ChildrenRequest) -> Any:
    """The target of a consumer: one provider, or the amount on each of several."""
    suffixes = {child.name: child.suffix or child.name for child in request.children}
    named = {f"{node}_{suffixes[child]}": amount for child, amount in used.items()}
    return {request.counted: named} if len(named) > 1 else next(iter(named))


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
