"""One-time-use devices that wait to be cleaned, and SEV-ES guests that stop nova 34. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from osc_placement.model import provider
from osc_placement.plan import change
from osc_placement.plan.reasons import Code
from osc_placement.workflows.finding import Action, Evidence, Proposal
from osc_placement.workflows.provider_audit.finding import Finding
from osc_placement.workflows.provider_audit.snapshot import ProviderSnapshot

USED_UP = "used-up"
SEV_ES_WITH_SNP = "sev-es-with-snp"
CODES = (USED_UP, SEV_ES_WITH_SNP)

_CLEAN = Proposal(
    Action.CLEAN_DEVICE,
    "clean it, then: resource provider inventory amend --resource CLASS:reserved=0",
)


_MOVE = Proposal(
    Action.CHECK_CONFIGURATION,
    "before an upgrade to nova 34: move the servers away, or switch SEV-SNP off on the host",
)


def find(snapshot: ProviderSnapshot) -> Iterator[Finding]:
    """The devices of which everything is reserved and nothing is allocated."""
    for item in snapshot.providers:
        if item.uuid in snapshot.used_up:
            reserved = {
                name: offered.reserved
                for name, offered in snapshot.inventories[item.uuid].items()
                if offered.reserved
            }
            text = f"nothing is allocated, and {', '.join(sorted(reserved))} is reserved"
            yield Finding(
                USED_UP,
                change.Subject(item.name, item.uuid),
                snapshot.hosts_of(item),
                Evidence(Code.USED_UP, text, {"reserved": reserved}),
                _CLEAN,
            )
        if snapshot.sev_es.get(item.uuid):
            yield _sev_es(snapshot, item)


def _sev_es(snapshot: ProviderSnapshot, item: provider.Provider) -> Finding:
    """nova-compute of nova 34 does not start on a host with SEV-ES guests and SEV-SNP."""
    count = snapshot.sev_es[item.uuid]
    text = (
        f"SEV-ES contexts in use: {count}, on a host with SEV-SNP: nova-compute 34 does not start"
    )
    return Finding(
        SEV_ES_WITH_SNP,
        change.Subject(item.name, item.uuid),
        snapshot.hosts_of(item),
        Evidence(Code.SEV_ES_GUESTS, text, {"contexts": count}),
        _MOVE,
    )
