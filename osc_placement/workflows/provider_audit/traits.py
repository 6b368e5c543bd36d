"""Traits of compute nodes that contradict nova, or that similar hosts have. Pure.

The repair of COMPUTE_STATUS_DISABLED and OWNER_NOVA is certain: both follow from what nova
reports. Other traits depend on the configuration of a host, so that no repair is proposed.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence

from osc_placement.plan.reasons import Code
from osc_placement.workflows.findings import Action, Evidence, Finding, Proposal
from osc_placement.workflows.provider_audit.snapshot import (
    HostNode,
    ProviderFinding,
    ProviderSnapshot,
)

WRONG_STATUS = "wrong-status"
MISSING_OWNER = "missing-owner"
MISSING_TRAIT = "missing-trait"
CODES = (WRONG_STATUS, MISSING_OWNER, MISSING_TRAIT)

_DISABLED = "COMPUTE_STATUS_DISABLED"
_OWNER = "OWNER_NOVA"

#: Traits of the driver and its version. HW_ traits differ with the hardware.
_OF_DRIVER = "COMPUTE_"

#: As many similar hosts must have a trait before its absence counts.
_PEERS = 2

#: At most one host, or this part of the similar hosts, may lack it.
_FEW_PERCENT = 5

_RESTART = Proposal(
    Action.RESTART_COMPUTE, "compare nova.conf and the log of nova-compute with a similar host"
)


def find(snapshot: ProviderSnapshot) -> Iterator[ProviderFinding]:
    """Findings about each compute node whose traits were read."""
    known = [item for item in snapshot.host_nodes if item.provider.uuid in snapshot.traits]
    owned = {
        item.node.hypervisor[0] for item in known if _OWNER in snapshot.traits[item.provider.uuid]
    }
    services = {each.host: each for each in snapshot.hosts.compute_services}
    for item in known:
        traits = snapshot.traits[item.provider.uuid]
        service = services.get(item.node.host)
        if service is not None and service.is_reachable:
            yield from _status(item, traits, is_disabled=not service.is_enabled)
        if item.node.hypervisor[0] in owned and _OWNER not in traits:
            yield _owner(item)
    yield from _compare_peers(snapshot, known)


def _status(
    item: HostNode, traits: frozenset[str], *, is_disabled: bool
) -> Iterator[ProviderFinding]:
    if is_disabled == (_DISABLED in traits):
        return
    status = "disabled" if is_disabled else "enabled"
    text = f"its compute service is {status}, and it has {'no' if is_disabled else 'the'} trait"
    yield Finding(
        WRONG_STATUS,
        item.subject,
        (item.node.host,),
        Evidence(Code.SERVICE_STATUS, f"{text} {_DISABLED}", {"service_status": status}),
        _proposal({_DISABLED: is_disabled}),
        {_DISABLED: is_disabled},
    )


def _owner(item: HostNode) -> ProviderFinding:
    kind = item.node.hypervisor[0]
    text = f"other {kind} hosts have the trait {_OWNER}: nova's scheduler can exclude this one"
    return Finding(
        MISSING_OWNER,
        item.subject,
        (item.node.host,),
        Evidence(Code.PEERS_DIFFER, text, {"traits": [_OWNER]}),
        _proposal({_OWNER: True}),
        {_OWNER: True},
    )


def _compare_peers(
    snapshot: ProviderSnapshot, known: Sequence[HostNode]
) -> Iterator[ProviderFinding]:
    """Compare hosts of the same hypervisor and version."""
    groups: dict[tuple[str, int], list[HostNode]] = collections.defaultdict(list)
    for item in known:
        groups[item.node.hypervisor].append(item)
    for (name, version), group in groups.items():
        having = collections.Counter(
            trait
            for item in group
            for trait in snapshot.traits[item.provider.uuid]
            if trait.startswith(_OF_DRIVER) and trait != _DISABLED
        )
        # More hosts without a trait may be another kind of host.
        few = max(len(group) * _FEW_PERCENT // 100, 1)
        expected = {
            trait
            for trait, count in having.items()
            if count >= _PEERS and 0 < len(group) - count <= few
        }
        for item in group:
            missing = sorted(expected - snapshot.traits[item.provider.uuid])
            if missing:
                peers = min(having[trait] for trait in missing)
                yield _missing(item, missing, f"{name} {version}", peers)


def _missing(item: HostNode, missing: list[str], hypervisor: str, peers: int) -> ProviderFinding:
    text = f"{peers} other hosts of {hypervisor} have {', '.join(missing)}"
    fields = {"traits": missing, "hypervisor": hypervisor, "peers": peers}
    evidence = Evidence(Code.PEERS_DIFFER, text, fields)
    return Finding(MISSING_TRAIT, item.subject, (item.node.host,), evidence, _RESTART)


def _proposal(traits: Mapping[str, bool]) -> Proposal:
    text = ", ".join(f"{'add' if has else 'remove'} {name}" for name, has in traits.items())
    return Proposal(Action.SET_TRAITS, text, {"traits": dict(traits)})
