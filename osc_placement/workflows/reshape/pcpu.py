# SPDX-License-Identifier: Apache-2.0
"""VCPU of a compute node to PCPU, as nova-compute with cpu_dedicated_set reports it. Pure.

The allocations of servers with dedicated CPUs, by flavor or image, change to PCPU; others stay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from osc_placement import errors
from osc_placement.nova import flavor, values
from osc_placement.workflows.reshape import recipes, snapshot

VCPU, PCPU = flavor.VCPU, flavor.PCPU

_HEAD = """\
{moved} VCPU of {node} become PCPU; {shared} stay.

Servers whose flavor or image requests dedicated CPUs get PCPU, others keep VCPU. Where \
nova does not know it, {node} does: this writes what --assign @evidence reads.

  for server in $(virsh list --all --uuid); do virsh dumpxml $server; done > evidence

A server with "# <server>: ?" below is undecided; --strategy guesses its class.

1. Stop nova-compute on {node}.
2. Check the plan, then apply it:

  openstack placement reshape FILE --dry-run
  openstack placement reshape FILE

3. In nova.conf of {node} set [compute] cpu_dedicated_set to {dedicated} CPUs and \
cpu_shared_set to the others, without vcpu_pin_set, and start nova-compute. Each minute it \
writes PCPU with the number of dedicated CPUs and allocation_ratio 1.0, and VCPU with the number \
of shared CPUs."""

_OTHERWISE = """\
With cpu_shared_set, nova-compute will write {written} VCPU, and this recipe leaves {shared}: a \
reshape moves resources and keeps their sum."""


#: The highest CPU number that is accepted, so that a typing error cannot list millions.
_MAX_CPU = 2**16

#: The CPUs in both sets that a message lists.
_SHOWN = 8


@dataclasses.dataclass(frozen=True, slots=True)
class PcpuRequest:
    """The future numbers of dedicated and shared CPUs; ``shared`` None: not given.

    ``evidence`` are pairs of a consumer's UUID and the class that it uses.
    """

    dedicated: int
    shared: int | None = None
    evidence: tuple[tuple[str, str], ...] = ()


def make_request(
    dedicated: str, shared: str | None, evidence: tuple[tuple[str, str], ...]
) -> PcpuRequest:
    """The request for these sets of CPUs. Errors: InvalidInput for a CPU in both sets."""
    first = parse_cpus(dedicated)
    second = parse_cpus(shared) if shared is not None else None
    if both := first & (second or frozenset()):
        shown = ", ".join(map(str, sorted(both)[:_SHOWN])) + (", ..." if len(both) > _SHOWN else "")
        raise errors.InvalidInput(
            [
                f"--cpu-dedicated-set and --cpu-shared-set both contain CPU {shown}: nova-compute"
                " requires separate sets"
            ]
        )
    return PcpuRequest(len(first), len(second) if second is not None else None, evidence)


def parse_cpus(text: str) -> frozenset[int]:
    """The CPUs of a set like ``4-15,^7,20``. Errors: InvalidInput."""
    chosen: set[int] = set()
    excluded: set[int] = set()
    try:
        for part in filter(None, map(str.strip, text.split(","))):
            cpus = excluded if part.startswith("^") else chosen
            first, dash, last = part.removeprefix("^").partition("-")
            end = int(last if dash else first)
            if end > _MAX_CPU:
                raise ValueError(f"CPU {end} does not exist")
            cpus |= set(range(int(first), end + 1))
    except ValueError as error:
        raise errors.InvalidInput([f"{text!r} is not a set of CPUs like 4-15,^7"]) from error
    if not chosen - excluded:
        raise errors.InvalidInput([f"{text!r} has no CPU"])
    return frozenset(chosen - excluded)


def plan_pcpu(
    trees: snapshot.TreeSnapshot,
    root: str,
    servers: Mapping[str, values.Server],
    migrations: Mapping[str, values.Migration],
    request: PcpuRequest,
) -> recipes.Recipe:
    """The recipe for the tree with this root (a UUID); servers and migrations are by UUID.

    Errors: InvalidInput for too few VCPU, enough PCPU, or invalid evidence.
    """
    node = trees.nodes[root]
    name = node.provider.name
    shared = node.inventories.get(VCPU)
    total = shared.total if shared is not None else 0
    amounts = trees.consumers_of(root, VCPU)
    dedicated = node.inventories.get(PCPU)
    # Only the difference moves: the PCPU that the node already has count as dedicated.
    moved = request.dedicated - (dedicated.total if dedicated is not None else 0)
    errors.InputErrors(_contradictions(name, total, moved, amounts, request)).check()
    evidence = dict(request.evidence)
    becomes: dict[str, str | None] = {}
    comments: dict[str, str] = {}
    for consumer, amount in amounts.items():
        called, server = _name(consumer, servers, migrations)
        becomes[consumer], reason = _becomes(amount, server, migrations.get(consumer))
        if consumer in evidence:
            becomes[consumer], reason = evidence[consumer], "according to its host"
        comments[consumer] = f"{called}: {amount} VCPU, {reason}"
    choice = total > moved
    return recipes.Recipe(
        tuple(_head(name, moved, total - moved, request)),
        {"moves": [{"from": name, "resources": {VCPU: moved}, "to": name, "as": {VCPU: PCPU}}]},
        {item: target for item, target in becomes.items() if target and choice},
        tuple(item for item, target in becomes.items() if target is None and choice),
        comments,
    )


def _contradictions(
    name: str, total: int, moved: int, amounts: Mapping[str, int], request: PcpuRequest
) -> Iterator[str]:
    if moved <= 0:
        yield (
            f"{name} already has {request.dedicated - moved} PCPU, and the dedicated set has"
            f" {request.dedicated} CPUs: no VCPU is left to change"
        )
    elif total < moved:
        yield f"{name} itself has {total} VCPU: {moved} cannot become PCPU"
    last = dict(request.evidence)
    for consumer, becomes in request.evidence:
        if becomes != last[consumer]:
            yield f"consumer {consumer} is assigned to {becomes} and to {last[consumer]}"
        if becomes not in (VCPU, PCPU):
            yield f"consumer {consumer}: {becomes!r} is neither VCPU nor PCPU"
        if consumer not in amounts:
            yield f"consumer {consumer} has no VCPU of {name}"


def _head(name: str, moved: int, shared: int, request: PcpuRequest) -> Iterator[str]:
    node = recipes.plain(name)
    text = _HEAD.format(node=node, moved=moved, dedicated=request.dedicated, shared=shared)
    yield from text.split("\n\n")
    if request.shared not in (None, shared):
        yield _OTHERWISE.format(written=request.shared, shared=shared)


def _name(
    consumer: str,
    servers: Mapping[str, values.Server],
    migrations: Mapping[str, values.Migration],
) -> tuple[str, values.Server | None]:
    """What a consumer of VCPU is in nova, and its server."""
    migration = migrations.get(consumer)
    server = servers.get(migration.server_uuid if migration is not None else consumer)
    name = server.name if server is not None else "a server that nova does not list"
    return (name if migration is None else f"{migration.type} of {name}"), server


def _becomes(
    amount: int, server: values.Server | None, migration: values.Migration | None
) -> tuple[str | None, str]:
    """The class that VCPU of a consumer change to, None if that is unknown; and the reason."""
    if server is None or server.flavor is None:
        return None, "its flavor is unknown"
    if migration is not None and migration.type == "resize":
        return None, "its old flavor is unknown"
    request = flavor.request_of(
        server.flavor, server.image_properties, booted_from_volume=server.from_volume
    )
    if doubt := next(iter(request.unknown), request.undecided.get(PCPU)):
        return None, doubt
    total = request.total()
    if not total.get(PCPU):
        return VCPU, "shared CPUs"
    if not total.get(VCPU):
        return PCPU, "dedicated CPUs"
    if amount == total[VCPU]:
        return VCPU, f"mixed, its {total[PCPU]} PCPU are on another provider"
    return None, f"mixed: {total[PCPU]} of its CPUs are dedicated, and an allocation moves whole"
