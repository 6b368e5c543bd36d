"""Planning what servers without allocations get, and whose consumers are: pure.

Called by ``healing``, which observes. Servers are taken the oldest first, as nova-manage
takes them, since what one gets is not there for the next.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from osc_placement import errors
from osc_placement.model import allocation
from osc_placement.neutron import port as neutron_port
from osc_placement.nova import values
from osc_placement.plan import change, plan
from osc_placement.plan.kinds import allocations as kinds_allocations, bound_ports
from osc_placement.workflows.allocations import (
    capacity,
    expected,
    location,
    ports as allocations_ports,
    precondition,
    scope as scopes,
    snapshot as pictures,
)
from osc_placement.workflows.allocations.heal import choice

_SOFT_DELETED = "it is soft-deleted: heal it when it was restored"
_NO_PROVIDER = "its host has no resource provider: nova-compute on {host} makes it when it runs"
_OTHER_UUID = "the provider {name} has another uuid than the compute node of that name"
_UNREAD = "the allocations on {name} cannot be read: {why}"
_AUDIT = "'openstack placement allocation audit' tells more"
_ELSEWHERE = "it has allocations on {where}, where it is not: {audit}"
_OTHER_SIZE = "it has {has} where its flavor says {needs}: {audit}"
_NOTHING = "its flavor asks for nothing"


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """What is to be healed and how.

    ``consumer_type`` is for new consumers, None where Placement knows no types (below 1.38).
    ``bind``: ports are told from where they have what they need.
    """

    scope: scopes.Scope = scopes.EVERYTHING
    consumer_type: str | None = allocation.INSTANCE
    wish: choice.HealOptions = dataclasses.field(default_factory=choice.HealOptions)
    bind: bool = True


def plan_heal(
    picture: pictures.CloudSnapshot,
    request: Request,
    answers: expected.Answers | None = None,
) -> plan.Plan:
    """The changes that give servers what they lack, and every other server with its reason.

    ``picture`` holds the inventories and owners that ``healing`` reads, ``answers`` those to
    the queries of ``expected.query_of``.
    """
    told = {} if answers is None else answers
    made = plan.make(_Heal(picture, request, told).items())
    return made.replace(names=_named(made, picture))


def concerned(picture: pictures.CloudSnapshot, scope: scopes.Scope) -> list[values.Server]:
    """The servers that are asked about, the oldest first."""
    found = [server for server in picture.servers.values() if scope.concerns(server)]
    return sorted(found, key=lambda server: (server.created, server.uuid))


def root_of(picture: pictures.CloudSnapshot, server: values.Server) -> str | None:
    """The root provider to heal a server on, by its uuid; None when it is not to be healed."""
    where = location.of(picture, server)
    if where.node is None or _why_not(picture, server, where):
        return None
    return where.node.uuid


def lacks(picture: pictures.CloudSnapshot, server: values.Server) -> bool:
    """Whether a server has no allocations at all."""
    return not picture.allocations.get(server.uuid)


class _Heal:
    def __init__(
        self, picture: pictures.CloudSnapshot, request: Request, answers: expected.Answers
    ) -> None:
        self._picture, self._request, self._answers = picture, request, answers
        self._names = {uuid: item.name for uuid, item in picture.providers.items()}
        self._room = capacity.Room(picture.inventories, picture.used, self._names)
        for told in answers.values():
            if not isinstance(told, errors.PlacementError):
                self._room.learn(told.summaries)

    def items(self) -> Iterator[change.Change | change.Skipped]:
        """Everything that stands in the plan, in the order in which room is given away."""
        for server in concerned(self._picture, self._request.scope):
            yield self._item(server)

    def _item(self, server: values.Server) -> change.Change | change.Skipped:
        where = location.of(self._picture, server)
        lacking = lacks(self._picture, server)
        why_not = _why_not(self._picture, server, where)
        if why_not:
            # Who is on no host is to have nothing; who has something needs no healing.
            idle = where.absent in _NEEDS_NOTHING or server.vm_state == "soft-delete"
            return self._left(server, why_not, refused=lacking and not idle)
        if where.node is None:
            raise AssertionError(server)
        if lacking or (
            allocations_ports.lacking(self._picture, server) and not self._away(server, where)
        ):
            return self._healed(server, where.node)
        return self._owned(server, where)

    def _healed(
        self, server: values.Server, node: values.ComputeNode
    ) -> change.Change | change.Skipped:
        """What becomes of a server that lacks something: all of it, or what its ports need."""
        found = expected.expect(self._picture, server, node.uuid, self._answers)
        if any(not each.allocations for each in found.options):
            return self._left(server, _NOTHING)
        chosen = choice.choose(server.uuid, found, self._room, self._request.wish, self._names)
        if chosen.option is None:
            return self._left(server, chosen.why_not, refused=True)
        self._room.take(chosen.option.allocations)
        told = self._told(chosen.option.allocations, node)
        reason = f"guessed ({chosen.guessed}): {told}" if chosen.guessed else told
        before = self._picture.consumer(server.uuid)
        made = self._change(server, before, self._given(server, before, chosen.option), reason)
        return self._bound(made, server, chosen.option.ports)

    def _given(
        self, server: values.Server, before: allocation.Consumer, option: expected.Option
    ) -> allocation.Consumer:
        """The consumer with what it lacked, and with its server's owner."""
        held = before.allocations
        added = {
            uuid: allocation.add_resources(held.get(uuid, {}), resources)
            for uuid, resources in option.allocations.items()
        }
        return dataclasses.replace(
            before,
            allocations={**held, **added},
            project_id=server.project_id,
            user_id=server.user_id,
            consumer_type=before.consumer_type if held else self._request.consumer_type,
        )

    def _told_to(
        self, server: values.Server, now: allocation.Consumer, untold: allocations_ports.Bindings
    ) -> change.Change:
        """Ports are told from where they have what they have: neutron alone changes."""
        ports = [port for port in self._picture.ports[server.uuid] if port.uuid in untold]
        names = {self._names.get(uuid, uuid) for each in untold.values() for uuid in each.values()}
        made = self._change(server, now, now, f"its port is told of {', '.join(sorted(names))}")
        return _with_ports(made, ports, untold)

    def _bound(
        self, made: change.Change, server: values.Server, bound: Mapping[str, str]
    ) -> change.Change:
        """The change, together with where ports get theirs from."""
        ports = allocations_ports.lacking(self._picture, server)
        if not ports or not self._request.bind:
            return made
        wanted = {port.uuid: {group: bound[group] for group in port.groups} for port in ports}
        return _with_ports(made, ports, wanted)

    def _owned(
        self, server: values.Server, where: location.Situation
    ) -> change.Change | change.Skipped:
        """What becomes of a server that has allocations: its owner, if that is not right."""
        now = self._picture.consumer(server.uuid)
        owner = (server.project_id, server.user_id)
        known = server.uuid in self._picture.owners
        if known and (now.project_id, now.user_id) != owner:
            after = dataclasses.replace(now, project_id=owner[0], user_id=owner[1])
            return self._change(server, now, after, _other_owner(now, server))
        wrong = self._wrong(server, now, where)
        untold = allocations_ports.untold(self._picture, server)
        if untold and known and not wrong and self._request.bind:
            return self._told_to(server, now, untold)
        return self._left(server, wrong) if wrong else self._right(server)

    def _wrong(
        self, server: values.Server, now: allocation.Consumer, where: location.Situation
    ) -> str:
        """Why what it has is not as it should be; auditing repairs that, healing only tells."""
        away = self._away(server, where)
        if away:
            told = ", ".join(sorted({self._names.get(uuid, uuid) for uuid in away}))
            return _ELSEWHERE.format(where=told, audit=_AUDIT)
        asked = expected.request_of(server)
        needs, has = asked.total(), now.total()
        if (
            asked.unknown
            or asked.undecided
            or all(has.get(name, 0) >= amount for name, amount in needs.items())
        ):
            return ""
        return _OTHER_SIZE.format(has=_amounts(has), needs=_amounts(needs), audit=_AUDIT)

    def _away(self, server: values.Server, where: location.Situation) -> list[str]:
        """The providers on which it holds something and is not."""
        held = self._picture.allocations.get(server.uuid, {})
        return [uuid for uuid in held if not where.may_hold(self._picture.root_of(uuid))]

    def _change(
        self,
        server: values.Server,
        before: allocation.Consumer,
        after: allocation.Consumer,
        reason: str,
    ) -> change.Change:
        return kinds_allocations.planned(
            server.name, before, after, reason=reason, premise=precondition.of(server)
        )

    def _left(self, server: values.Server, reason: str, *, refused: bool = False) -> change.Skipped:
        facts = kinds_allocations.facts(self._picture.consumer(server.uuid))
        subject = change.Subject(server.name or server.uuid, server.uuid)
        return change.Skipped(change.ALLOCATIONS, subject, facts, facts, reason, refused=refused)

    def _right(self, server: values.Server) -> change.Skipped:
        facts = kinds_allocations.facts(self._picture.consumer(server.uuid))
        subject = change.Subject(server.name, server.uuid)
        return change.Skipped(change.ALLOCATIONS, subject, facts, facts, unchanged=True)

    def _told(self, allocations: allocation.Allocations, node: values.ComputeNode) -> str:
        """``on cmp-0001: VCPU=1, MEMORY_MB=2048; nfs-share: DISK_GB=20``, the root first."""
        ordered = sorted(allocations, key=lambda uuid: (uuid != node.uuid, self._names.get(uuid)))
        return "on " + "; ".join(
            f"{self._names.get(uuid, uuid)}: {_amounts(allocations[uuid])}" for uuid in ordered
        )


def _with_ports(
    made: change.Change, ports: Sequence[neutron_port.Port], wanted: allocations_ports.Bindings
) -> change.Change:
    """The change, and what the binding profiles of ports tell."""
    was = bound_ports.facts({port.uuid: port.allocation for port in ports})
    becomes = bound_ports.facts(wanted)
    keys = dict.fromkeys([*was, *becomes])
    return made.replace(
        kind=change.BOUND,
        before={**made.before, **{key: was.get(key) for key in keys}},
        after={**made.after, **{key: becomes.get(key) for key in keys}},
    )


def _named(made: plan.Plan, picture: pictures.CloudSnapshot) -> dict[str, str]:
    """The names of the providers that a plan speaks of."""
    spoken = {key.partition(":")[0] for item in made.items() for key in [*item.before, *item.after]}
    return {uuid: item.name for uuid, item in picture.providers.items() if uuid in spoken}


_NEEDS_NOTHING = frozenset({location.OFFLOADED, location.NO_HOST})


def _why_not(
    picture: pictures.CloudSnapshot, server: values.Server, where: location.Situation
) -> str:
    """Why a server is not looked at more closely; empty when it is."""
    if where.moving:
        return where.moving
    if server.vm_state == "soft-delete":
        return _SOFT_DELETED
    if where.node is None:
        return where.absent
    node = where.node
    if node.uuid not in picture.providers:
        named = any(
            item.name == node.hostname and item.parent_uuid is None
            for item in picture.providers.values()
        )
        told = _OTHER_UUID if named else _NO_PROVIDER
        return told.format(host=node.host, name=node.hostname)
    for item in picture.trees.get(node.uuid, ()):
        if item.uuid in picture.unread:
            return _UNREAD.format(name=item.name, why=picture.unread[item.uuid])
    return ""


def _other_owner(now: allocation.Consumer, server: values.Server) -> str:
    parts = [
        f"{what} {is_} instead of {was}"
        for what, was, is_ in (
            ("project", now.project_id, server.project_id),
            ("user", now.user_id, server.user_id),
        )
        if was != is_
    ]
    return "; ".join(parts)


def _amounts(resources: allocation.Resources) -> str:
    return ", ".join(f"{name}={amount}" for name, amount in resources.items()) or "nothing"
