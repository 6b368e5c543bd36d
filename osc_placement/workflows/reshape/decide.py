"""Deciding a reshape from a snapshot alone: the target of every inventory and allocation. Pure."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Iterable, Sequence

from osc_placement import errors
from osc_placement.model import provider
from osc_placement.plan import change
from osc_placement.plan.kinds import reshape
from osc_placement.plan.reasons import Code
from osc_placement.workflows.reshape import consumers, invariants, resolve, snapshot
from osc_placement.workflows.reshape.document import target_tree, values

LOG = logging.getLogger(__name__)

_NOTHING_TO_MOVE = "it has no inventory that the document moves"


@dataclasses.dataclass(frozen=True, slots=True)
class ReshapeRequest:
    """A ``document`` of moves, or the target ``tree``.

    ``roots`` are the roots of the trees to which a document with ``$root`` applies, one by one.
    """

    document: values.Document = dataclasses.field(default_factory=values.Document)
    tree: target_tree.Tree | None = None
    roots: tuple[provider.Provider, ...] = ()
    options: consumers.AssignOptions = dataclasses.field(default_factory=consumers.AssignOptions)
    allow: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """All demands with their targets, and the snapshots before and after the reshape.

    ``after`` still has the providers that are deleted once they are empty.
    """

    resolved: resolve.Resolved
    placed: Sequence[consumers.Placed]
    before: snapshot.TreeSnapshot
    after: snapshot.TreeSnapshot

    @property
    def allowed(self) -> invariants.Expected:
        """What the document changes, for ``invariants``."""
        return invariants.expected(self.resolved)


def decide_request(
    request: ReshapeRequest, before: snapshot.TreeSnapshot
) -> tuple[Decision, list[change.Skipped]]:
    """Decide a request. Errors: InvalidInput with all reasons.

    With ``roots``, a tree that cannot be reshaped is skipped instead.
    """
    document = target_tree.moves(request.tree, before) if request.tree else request.document
    parts: Iterable[target_tree.Part] = [target_tree.Part(None, document, before)]
    if request.roots:
        parts = target_tree.for_trees(document, request.roots, before)
    taken = {text for uuid, node in before.nodes.items() for text in (uuid, node.provider.name)}
    decisions, skipped = [], []
    for root, own, tree in parts:
        try:
            if own is None:
                raise errors.InvalidInput([_NOTHING_TO_MOVE])
            decision = decide(own, tree, request.options, request.allow, taken if root else ())
        except errors.InvalidInput as error:
            if root is None:
                raise
            subject = change.Subject(root.name, root.uuid)
            reason, refused = "; ".join(error.reasons), own is not None
            code = _code(error) if refused else Code.NOTHING_TO_MOVE
            LOG.info("skipping the tree of %s: %s", root.name, reason)
            skipped.append(
                change.Skipped(
                    reshape.TYPE.name, subject, reason=reason, code=code, refused=refused
                )
            )
        else:
            taken |= decision.resolved.new_names
            decisions.append(decision)
    return (_merge(decisions, before) if request.roots else decisions[0]), skipped


def _code(error: errors.InvalidInput) -> Code:
    if isinstance(error, invariants.NovaOwned):
        return Code.NOVA_OWNED
    is_device = isinstance(error, invariants.DeviceReleased)
    return Code.ONE_TIME_USE if is_device else Code.RESHAPE_REFUSED


def decide(
    document: values.Document,
    before: snapshot.TreeSnapshot,
    options: consumers.AssignOptions,
    allow: Collection[str] = (),
    taken: Collection[str] = (),
) -> Decision:
    """Decide one document. ``taken`` are the UUIDs and names in other trees.

    Errors: InvalidInput with all reasons.
    """
    problems = errors.InputErrors()
    resolved = resolve.resolve(document, before, problems, taken)
    problems.check()
    inventories = resolve.inventories(resolved, problems)
    demands = consumers.demands(before, resolved, inventories, problems)
    invariants.check(before, resolved, inventories, allow, problems)
    placed = consumers.assign(demands, before, resolved, inventories, options, problems)
    problems.check()
    after = before.after(resolved.nodes, inventories, [each.move for each in placed])
    decision = Decision(resolved, placed, before, after)
    problems.reasons += invariants.misplaced(after, placed)
    problems.reasons += invariants.violations(before, after, decision.allowed)
    problems.reasons += invariants.unexpected_changes(
        before, after, resolved.moves, resolved.fields, resolved.growth
    )
    problems.check()
    return decision


def _merge(decisions: Sequence[Decision], trees: snapshot.TreeSnapshot) -> Decision:
    """The decisions on several trees as one."""
    resolved = resolve.Resolved(
        decisions[0].resolved.document if len(decisions) == 1 else values.Document(),
        {uuid: node for each in decisions for uuid, node in each.resolved.nodes.items()},
        tuple(move for each in decisions for move in each.resolved.moves),
        {place: given for each in decisions for place, given in each.resolved.fields.items()},
        deleted=frozenset().union(*(each.resolved.deleted for each in decisions)),
    )
    placed = [one for each in decisions for one in each.placed]
    before = trees.restricted_to(resolved.nodes)
    inventories = {
        uuid: each.after.nodes[uuid].inventories
        for each in decisions
        for uuid in each.resolved.nodes
    }
    after = before.after(resolved.nodes, inventories, [each.move for each in placed])
    return Decision(resolved, placed, before, after)
