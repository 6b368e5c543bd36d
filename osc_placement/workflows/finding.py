"""A finding of an audit: codes and fields for programs, texts for people. Pure.

The codes and the names of the fields are an interface, which the page "Auditing allocations"
documents. The texts can change.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from osc_placement.plan import change
from osc_placement.plan.reasons import Code

#: The code of everything that may be right, or that cannot be repaired with certainty.
UNKNOWN = "unknown"

#: JSON values. Providers, consumers, projects and users are UUIDs.
Fields = Mapping[str, Any]


class Action(enum.StrEnum):
    """What to do about a finding."""

    NONE = "none"

    # Repairs.
    BIND_PORTS = "bind-ports"
    CREATE_ALLOCATIONS = "create-allocations"
    MOVE_ALLOCATIONS = "move-allocations"
    REMOVE_ALLOCATIONS = "remove-allocations"
    SET_AMOUNTS = "set-amounts"
    SET_OWNER = "set-owner"
    SET_TRAITS = "set-traits"

    # What the operator can do.
    ASSIGN = "assign"
    CHECK_CONFIGURATION = "check-configuration"
    CLEAN_DEVICE = "clean-device"
    DELETE_PROVIDER = "delete-provider"
    DISCOVER_HOSTS = "discover-hosts"
    FREE_CAPACITY = "free-capacity"
    IDENTIFY_SERVICE = "identify-service"
    REPAIR_CONSUMERS = "repair-consumers"
    RESTART_AGENT = "restart-agent"
    RESTART_COMPUTE = "restart-compute"
    RUN_AGAIN = "run-again"


@dataclasses.dataclass(frozen=True, slots=True)
class Evidence:
    """What shows that something is wrong; ``cause``: why the finding has its code."""

    cause: Code
    text: str
    fields: Fields


@dataclasses.dataclass(frozen=True, slots=True)
class Proposal:
    """What to do; ``fields``: what the repair writes, empty without a repair."""

    action: Action
    text: str
    fields: Fields = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with ``subject``, a consumer or a provider.

    ``hosts``: names of hosts, or of root providers that are not compute nodes.
    """

    code: str
    subject: change.Subject
    hosts: tuple[str, ...]
    evidence: Evidence
    proposed: Proposal

    @property
    def is_repairable(self) -> bool:
        """Whether there is a certain repair."""
        return False

    def sort_key(self) -> tuple[bool, str, change.Subject]:
        """By code, unknown findings last."""
        return (self.code == UNKNOWN, self.code, self.subject)
