"""VCPU of a compute node to PCPU, as nova-compute with cpu_dedicated_set reports it. Pure.

Servers that ask for dedicated CPUs, by flavor or image, follow; others stay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from osc_placement import errors
from osc_placement.nova import flavor, values
from osc_placement.workflows.reshape import snapshot
from osc_placement.workflows.reshape.recipe import yaml_writer

VCPU, PCPU = flavor.VCPU, flavor.PCPU

_HEAD = """\
{dedicated} VCPU of {node} become PCPU; {shared} stay.

Servers whose flavor or image asks for dedicated CPUs take PCPU, others keep VCPU. Where \
nova does not tell, {node} does: this prints a line for each server, as --assign-from takes \
them.

  for server in $(virsh list --all --uuid); do
    virsh dumpxml $server | grep -q "<vcpupin [^>]*cpuset='[0-9]*'" &&
      echo $server=PCPU || echo $server=VCPU
  done

What stands below as "# <server>: ?" is not decided; with --strategy it is guessed.

1. Stop nova-compute on {node}.
2. Look, and do it:

  openstack placement reshape FILE --dry-run
  openstack placement reshape FILE

3. In nova.conf of {node} set [compute] cpu_dedicated_set to {dedicated} CPUs and \
cpu_shared_set to the others, without vcpu_pin_set, and start nova-compute. It writes PCPU \
with the number of the one and allocation_ratio 1.0, and VCPU with the number of the other, \
each minute."""

_OTHERWISE = """\
With cpu_shared_set it will write {written} VCPU, where this leaves {shared}: a reshape moves \
resources, it makes and ends none."""


#: No host has a CPU of a higher number; a slip of the finger may name millions.
_MOST_CPUS = 2**16


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """How many CPUs are dedicated, and how many shared where that is known.

    ``evidence`` are pairs of a consumer's UUID and the class that it really uses.
    """

    dedicated: int
    shared: int | None = None
    evidence: tuple[tuple[str, str], ...] = ()


def count_cpus(text: str) -> int:
    """How many CPUs nova's ``4-15,^7,20`` are. Errors: InvalidInput."""
    chosen: set[int] = set()
    excluded: set[int] = set()
    try:
        for part in filter(None, map(str.strip, text.split(","))):
            of = excluded if part.startswith("^") else chosen
            first, dash, last = part.removeprefix("^").partition("-")
            end = int(last if dash else first)
            if end > _MOST_CPUS:
                raise ValueError(f"there is no CPU {end}")
            of |= set(range(int(first), end + 1))
    except ValueError as error:
        raise errors.InvalidInput([f"{text!r} is no set of CPUs, as in 4-15,^7"]) from error
    if not chosen - excluded:
        raise errors.InvalidInput([f"{text!r} has no CPU"])
    return len(chosen - excluded)


def plan_pcpu(
    seen: snapshot.TreeSnapshot,
    root: str,
    servers: Mapping[str, values.Server],
    migrations: Mapping[str, values.Migration],
    request: Request,
) -> yaml_writer.Recipe:
    """The recipe for the tree with this root (a UUID); servers and migrations are by UUID.

    Errors: InvalidInput where the node has not so many VCPU, or evidence makes no sense.
    """
    node = seen.nodes[root]
    name = node.provider.name
    held = node.inventories.get(VCPU)
    total = held.total if held is not None else 0
    using = seen.holding(root, VCPU)
    errors.InputErrors(_disagreeing(name, total, using, request)).check()
    evidence = dict(request.evidence)
    becomes: dict[str, str | None] = {}
    remarks: dict[str, str] = {}
    for consumer, amount in using.items():
        told = _Consumer(consumer, amount, servers, migrations)
        becomes[consumer], why = told.becomes()
        if consumer in evidence:
            becomes[consumer], why = evidence[consumer], "as its host says"
        remarks[consumer] = f"{told.name}: {amount} VCPU, {why}"
    moved = {VCPU: request.dedicated}
    choice = total > request.dedicated
    return yaml_writer.Recipe(
        tuple(_head(name, total - request.dedicated, request)),
        {"moves": [{"from": name, "resources": moved, "to": name, "as": {VCPU: PCPU}}]},
        {item: target for item, target in becomes.items() if target and choice},
        tuple(item for item, target in becomes.items() if target is None and choice),
        remarks,
    )


def _disagreeing(
    name: str, total: int, using: Mapping[str, int], request: Request
) -> Iterator[str]:
    if total < request.dedicated:
        yield f"{name} itself offers {total} VCPU: {request.dedicated} cannot become PCPU"
    for consumer, told in request.evidence:
        if told not in (VCPU, PCPU):
            yield f"consumer {consumer}: {told!r} is neither VCPU nor PCPU"
        if consumer not in using:
            yield f"consumer {consumer} has no VCPU of {name}"


def _head(name: str, shared: int, request: Request) -> Iterator[str]:
    node = yaml_writer.plain(name)
    text = _HEAD.format(node=node, dedicated=request.dedicated, shared=shared)
    yield from text.split("\n\n")
    if request.shared not in (None, shared):
        yield _OTHERWISE.format(written=request.shared, shared=shared)


class _Consumer:
    """One that has VCPU, and what nova knows of it."""

    def __init__(
        self,
        uuid: str,
        amount: int,
        servers: Mapping[str, values.Server],
        migrations: Mapping[str, values.Migration],
    ) -> None:
        self._amount = amount
        self._migration = migrations.get(uuid)
        server_uuid = self._migration.server_uuid if self._migration is not None else uuid
        self._server = servers.get(server_uuid)
        self.name = self._server.name if self._server is not None else "no server that nova lists"
        if self._migration is not None:
            self.name = f"{self._migration.type} of {self.name}"

    def becomes(self) -> tuple[str | None, str]:
        """The class that its VCPU get, None where nothing tells; and why."""
        server = self._server
        if server is None or server.flavor is None:
            return None, "its flavor is not known"
        if self._migration is not None and self._migration.type == "resize":
            return None, "the flavor that it had before is not known"
        request = flavor.request_of(
            server.flavor, server.image_properties, booted_from_volume=server.from_volume
        )
        if doubts := [*request.unknown, *_only_pinned(request.undecided)]:
            return None, doubts[0]
        return self._by_amounts(request.total())

    def _by_amounts(self, total: Mapping[str, int]) -> tuple[str | None, str]:
        if not total.get(PCPU):
            return VCPU, "shared CPUs"
        if not total.get(VCPU):
            return PCPU, "dedicated CPUs"
        if self._amount == total[VCPU]:
            return VCPU, f"mixed, its {total[PCPU]} PCPU are elsewhere"
        return None, f"mixed: {total[PCPU]} of its CPUs are dedicated, and it moves whole or not"


def _only_pinned(undecided: Mapping[str, str]) -> Iterable[str]:
    return [reason for resource_class, reason in undecided.items() if resource_class == PCPU]
