"""Devices that wait to be cleaned, or that nova-compute does not manage any more. Pure.

And SEV-ES guests, which stop nova 34.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from osc_placement.model import provider
from osc_placement.model.name import and_more
from osc_placement.plan import change
from osc_placement.plan.reasons import Code
from osc_placement.workflows.findings import Action, Evidence, Finding, Proposal
from osc_placement.workflows.provider_audit.snapshot import ProviderFinding, ProviderSnapshot

USED_UP = "used-up"
SEV_ES_WITH_SNP = "sev-es-with-snp"
PCI_DEVICE_OUT_OF_SPEC = "pci-device-out-of-spec"
CODES = (USED_UP, SEV_ES_WITH_SNP, PCI_DEVICE_OUT_OF_SPEC)

_CLEAN = Proposal(
    Action.CLEAN_DEVICE,
    "clean it, then: resource provider inventory amend --resource CLASS:reserved=0",
)


_MOVE = Proposal(
    Action.CHECK_CONFIGURATION,
    "before an upgrade to nova 34: move the servers away, or switch SEV-SNP off on the host",
)


_CONFIGURE = Proposal(
    Action.CHECK_CONFIGURATION,
    "add it to device_spec again, or move or delete the server; then restart nova-compute",
)


def find(snapshot: ProviderSnapshot) -> Iterator[ProviderFinding]:
    """Used-up devices, SEV-ES guests on hosts with SEV-SNP, and PCI devices out of device_spec."""
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
        consumers = snapshot.pci_consumers.get(item.uuid)
        if consumers and snapshot.pci_match(item) is False:
            yield _out_of_spec(snapshot, item, consumers)


def _out_of_spec(
    snapshot: ProviderSnapshot, item: provider.Provider, consumers: Sequence[str]
) -> ProviderFinding:
    """nova-compute of nova 34 keeps the provider of such a device while a server uses it."""
    text = f"no [pci]device_spec matches it, and it is in use by {and_more(consumers, 3)}"
    return Finding(
        PCI_DEVICE_OUT_OF_SPEC,
        change.Subject(item.name, item.uuid),
        snapshot.hosts_of(item),
        Evidence(Code.OUT_OF_SPEC, text, {"consumers": list(consumers)}),
        _CONFIGURE,
    )


def _sev_es(snapshot: ProviderSnapshot, item: provider.Provider) -> ProviderFinding:
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
