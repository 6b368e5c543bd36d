# SPDX-License-Identifier: Apache-2.0
"""The gate between two legs: whether the hosts of the former legs are back.

``read`` reads the record, and ``verify`` sends requests; the rest is pure.

The scripts of the legs record in a file beside the plan which hosts were rebooted, and which of
them take servers again. What these hosts are now is read from nova and Placement each time.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from osc_placement import errors
from osc_placement.client import api, lookup
from osc_placement.model import command_line
from osc_placement.model.name import and_more
from osc_placement.nova import values
from osc_placement.plan import file as plan_file, journal
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import nova_servers, server_moves
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.moving import document, follow

_WITHOUT = ": repair it, or go on without the host: --skip"
_DOWN = f"nova-compute is down{_WITHOUT}"


@dataclasses.dataclass(frozen=True, slots=True)
class RebootRecord:
    """Nova's names of the hosts that were ``rebooted``, and of those that are ``back``."""

    rebooted: frozenset[str] = frozenset()
    back: frozenset[str] = frozenset()


class ClosedGate(NamedTuple):
    """A host that is not back, why, and the command that helps."""

    host: str
    reason: str
    command: str = ""


def path_of(plan: pathlib.Path) -> pathlib.Path:
    """The record of a plan."""
    return plan.with_name(f"{plan.name}.done")


def copy(plan: pathlib.Path | None, to: pathlib.Path) -> None:
    """Give a plan the record of the plan that it continues; none if it continues none.

    Errors: PlacementError.
    """
    own = path_of(to)
    if plan is None:
        own.unlink(missing_ok=True)
    elif path_of(plan).exists() and path_of(plan).absolute() != own.absolute():
        plan_file.replace(own, [path_of(plan).read_text()])


def read(plan: pathlib.Path) -> RebootRecord:
    """The record of a plan; empty before the first leg. Errors: PlacementError."""
    path = path_of(plan)
    try:
        lines = [line.split(" ", 1) for line in path.read_text().splitlines()]
    except FileNotFoundError:
        return RebootRecord()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.PlacementError(f"{path} cannot be read: {error}") from error
    rebooted, back = (
        frozenset(line[1] for line in lines if line[0] == word and len(line) > 1)
        for word in ("rebooted", "back")
    )
    return RebootRecord(rebooted | back, back)


def check_rest(plan: pathlib.Path) -> None:
    """Refuse a plan whose script runs, or a reboot that it began. Errors: PlacementError."""
    path = path_of(plan)
    if path.exists() and journal.is_running(path):
        raise errors.PlacementError(
            f"a script of {plan} runs, or a reboot that it began: wait for it to end"
        )


def started(
    plan: document.MovePlan | None, record: RebootRecord, compute: ServerHosts
) -> frozenset[str]:
    """The hosts (root UUIDs) that a script has disabled, and not rebooted yet."""
    if plan is None:
        return frozenset()
    others = {host.host for host in plan.disabled} | record.rebooted
    services = {
        root: compute.service_of(host)
        for host, root in zip(plan.hosts, plan.nodes, strict=True)
        if host not in others
    }
    return frozenset(
        root
        for root, service in services.items()
        if service and not service.is_enabled and service.disabled_reason == document.REASON
    )


def done_roots(record: RebootRecord, compute: ServerHosts) -> list[str]:
    """The root UUIDs of the hosts that were rebooted, as far as nova lists them."""
    roots = (compute.root_of(host) for host in sorted(record.rebooted))
    return [root for root in roots if root]


def check(
    plan: document.MovePlan | None,
    record: RebootRecord,
    skip: Collection[str],
    cloud: Cloud,
    compute: ServerHosts,
) -> Iterator[ClosedGate]:
    """The hosts that were rebooted and are not back; ``cloud`` has their servers.

    ``skip`` are hosts for which no leg waits: names or UUIDs.
    """
    others = {host.host for host in plan.disabled} if plan else set()
    for host in sorted(record.rebooted):
        root, service = compute.root_of(host), compute.service_of(host)
        provider = cloud.providers.get(root or "")
        if not {host, root, provider and provider.name}.isdisjoint(skip):
            continue
        if root is None or service is None:
            yield ClosedGate(host, f"nova lists no compute node of it{_WITHOUT}")
        elif provider is None:
            yield ClosedGate(host, "Placement has no resource provider of it")
        elif not compute.is_up(root):
            yield ClosedGate(host, _DOWN)
        elif not service.is_enabled and host not in others:
            enable = [("--enable", None)]
            command = command_line.line("compute service set", host, "nova-compute", options=enable)
            reason = service.disabled_reason or "without a reason"
            yield ClosedGate(host, f"nova-compute is disabled: {reason}", command)
        else:
            leaked = [
                it.consumer_uuid for it in server_moves.holders_on(cloud, root) if it.is_leaked
            ]
            if leaked:
                options = (("--repair", None), ("--host", host))
                audit = command_line.line("placement allocation audit", options=options)
                yield ClosedGate(host, f"a move left allocations of {and_more(leaked)}", audit)


def verify(
    client: api.Client,
    plan: document.MovePlan,
    record: RebootRecord,
    skip: Sequence[str],
    nova: nova_servers.NovaReader,
    context: ReadContext,
) -> list[ClosedGate]:
    """The hosts that were rebooted and are not back.

    Requests: those of ``find_providers`` and ``follow.observe_on`` for these hosts. Errors:
    PlacementError.
    """
    follow.check_nova(nova.compute.not_checked)
    roots = list(lookup.find_providers(client, done_roots(record, nova.compute)))
    cloud = Cloud(values.Hosts(), {})
    if roots:
        cloud = follow.observe_on(client, roots, nova, context).cloud
    return [*check(plan, record, skip, cloud, nova.compute)]


def legs_done(plan: document.MovePlan, record: RebootRecord) -> int:
    """The number of the first legs of a plan whose hosts were rebooted."""
    hosts = (set(leg.hosts) for leg in plan.legs.legs)
    return len([*itertools.takewhile(record.rebooted.issuperset, hosts)])
