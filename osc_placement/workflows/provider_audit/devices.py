"""One-time-use devices that wait to be cleaned. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from osc_placement.plan import change
from osc_placement.plan.reasons import Code
from osc_placement.workflows.finding import Action, Evidence, Proposal
from osc_placement.workflows.provider_audit.finding import Finding
from osc_placement.workflows.provider_audit.snapshot import ProviderSnapshot

USED_UP = "used-up"
CODES = (USED_UP,)

_CLEAN = Proposal(
    Action.CLEAN_DEVICE,
    "clean it, then: resource provider inventory amend --resource CLASS:reserved=0",
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
