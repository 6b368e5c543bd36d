# SPDX-License-Identifier: Apache-2.0
"""Which servers' allocations can be compared now, and which of them are out of place. Pure."""

from __future__ import annotations

from osc_placement.nova import values
from osc_placement.plan import reasons
from osc_placement.plan.reasons import Code, Reason
from osc_placement.workflows.cloud import guest_search, server_moves
from osc_placement.workflows.cloud.cloud import Cloud, no_provider
from osc_placement.workflows.cloud.server_moves import ServerMove

_SOFT_DELETED = Reason(Code.SOFT_DELETED, "it is soft-deleted: restore it, then heal it")
_OTHER_UUID = "the provider {name} has another UUID than the compute node of that name"
_READ_ERROR = "the allocations on {name} cannot be read: {why}"


def elsewhere(snapshot: Cloud, server: values.Server, move: ServerMove) -> list[str]:
    """The providers on which a server holds allocations though it is not there, by UUID."""
    allocations = snapshot.allocations.get(server.uuid, {})
    return [uuid for uuid in allocations if not move.may_hold(snapshot.root_of(uuid))]


def skip_reason(snapshot: Cloud, server: values.Server, move: ServerMove) -> Reason:
    """Why a server's allocations cannot be checked now; empty if they can."""
    if move.moving and move.phase is server_moves.Phase.DISAGREES:
        text = f"{move.moving}; {guest_search.next_step(snapshot, move)}"
        return Reason(move.moving.code, text)
    if move.moving:
        return move.moving
    if server.vm_state == "soft-delete":
        return _SOFT_DELETED
    return move.absent if move.node is None else unready(snapshot, move.node)


def unready(snapshot: Cloud, node: values.ComputeNode) -> Reason:
    """Why allocations on a compute node cannot be checked; empty if they can."""
    if node.uuid not in snapshot.providers:
        if node.hostname in snapshot.roots:
            return Reason(Code.OTHER_UUID, _OTHER_UUID.format(name=node.hostname))
        text = no_provider(node.host, subject="its host")
        return Reason(Code.NO_PROVIDER, text)
    for item in snapshot.trees.get(node.uuid, ()):
        if item.uuid in snapshot.read_errors:
            text = _READ_ERROR.format(name=item.name, why=snapshot.read_errors[item.uuid])
            return Reason(Code.UNREADABLE, text)
    return reasons.NONE


def root_to_heal(snapshot: Cloud, server: values.Server) -> str | None:
    """The UUID of the root provider to heal a server on; None if ``skip_reason`` has a reason."""
    move = server_moves.move_of(snapshot, server)
    if move.node is None or skip_reason(snapshot, server, move):
        return None
    return move.node.uuid
