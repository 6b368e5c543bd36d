# SPDX-License-Identifier: Apache-2.0
"""Why an item is not changed, or not completely: a stable code, and a text for people.

The codes are an interface for programs: a code keeps its name and its meaning. The page
"Reason codes" of the documentation describes each of them.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Sequence

from osc_placement.plan import guards


class Code(enum.StrEnum):
    """The code of a reason. A guard has its name for ``--allow``."""

    NONE = ""

    # Guards.
    OVER_CAPACITY = guards.OVER_CAPACITY
    RESERVED_ABOVE_TOTAL = guards.RESERVED_ABOVE_TOTAL
    NOTHING_LEFT = guards.NOTHING_LEFT
    CLASS_IN_USE = guards.CLASS_IN_USE
    STANDARD_TRAITS = guards.STANDARD_TRAITS
    NOVA_OWNED = guards.NOVA_OWNED
    ONE_TIME_USE = guards.ONE_TIME_USE
    MANY = guards.MANY
    NOT_EMPTY = "not-empty"

    # What the operator requested.
    INVALID_VALUE = "invalid-value"
    NO_INVENTORY = "no-inventory"
    NOTHING_TO_MOVE = "nothing-to-move"
    RESHAPE_REFUSED = "reshape-refused"
    UNREADABLE = "unreadable"

    # Host aggregates.
    EMPTY_AGGREGATE = "empty-aggregate"
    NO_AGGREGATE = "no-aggregate"
    NOT_A_COMPUTE_NODE = "not-a-compute-node"
    STALE_MEMBER = "stale-member"
    UNKNOWN_HOST = "unknown-host"

    # Compute hosts.
    CELL_DOWN = "cell-down"
    NO_COMPUTE_NODE = "no-compute-node"
    NO_PROVIDER = "no-provider"
    OTHER_UUID = "other-uuid"

    # Providers, compared with nova and neutron.
    DIFFERENT_TOTAL = "different-total"
    NOT_CONFIGURED = "not-configured"
    NOT_SYNCED = "not-synced"
    OTHER_HOST = "other-host"
    OTHER_NAME = "other-name"
    OUT_OF_SPEC = "out-of-spec"
    PEERS_DIFFER = "peers-differ"
    SAME_HOST = "same-host"
    SERVICE_STATUS = "service-status"
    SEV_ES_GUESTS = "sev-es-guests"
    TWO_OWNERS = "two-owners"
    USED_UP = "used-up"

    # Servers.
    AMBIGUOUS = "ambiguous"
    BUILDING = "building"
    BUSY = "busy"
    MOVING = "moving"
    NO_CAPACITY = "no-capacity"
    NO_FLAVOR = "no-flavor"
    NO_HOST = "no-host"
    NOT_ALLOWED = "not-allowed"
    NOT_POSSIBLE = "not-possible"
    REQUESTS_NOTHING = "requests-nothing"
    SOFT_DELETED = "soft-deleted"
    WRONG_HOST = "wrong-host"
    WRONG_SIZE = "wrong-size"
    WRONG_UNIT = "wrong-unit"

    # Findings of an audit.
    EVACUATED = "evacuated"
    MIGRATION_OVER = "migration-over"
    NO_ALLOCATIONS = "no-allocations"
    NO_BINDING = "no-binding"
    NOT_IN_NOVA = "not-in-nova"
    OTHER_NOVA = "other-nova"
    OTHER_OWNER = "other-owner"
    OTHER_SERVICE = "other-service"
    PLACEHOLDER_OWNER = "placeholder-owner"
    PORT_RESOURCES = "port-resources"
    RECENT_CHANGE = "recent-change"
    SECOND_HOST = "second-host"
    SERVER_DELETED = "server-deleted"
    UNDISCOVERED_HOST = "undiscovered-host"
    UNEXPLAINED_RESOURCES = "unexplained-resources"

    # A run.
    CHANGED = "changed-concurrently"
    CHANGED_IN_NOVA = "changed-in-nova"
    DEPENDENCY = "dependency"
    EARLIER_RUN = "earlier-run"
    INTERRUPTED = "interrupted"
    MAX_COUNT = "max-count"
    NOT_FOUND = "not-found"
    OUTCOME_UNKNOWN = "outcome-unknown"
    REQUEST_FAILED = "request-failed"
    RUN_STOPPED = "run-stopped"

    # Undo.
    IRREVERSIBLE = "irreversible"
    NOT_APPLIED = "not-applied"


@dataclasses.dataclass(frozen=True, slots=True)
class Reason:
    """A reason for programs and for people; false without a text."""

    code: Code = Code.NONE
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.text)

    def __str__(self) -> str:
        return self.text


#: No reason.
NONE = Reason()


def first_of(reasons: Sequence[Reason]) -> Reason:
    """All texts, with the code of the first reason."""
    return Reason(reasons[0].code, joined_texts(reasons))


def joined_codes(reasons: Iterable[Reason]) -> str:
    """The codes of several reasons, separated by commas."""
    return ",".join(dict.fromkeys(reason.code for reason in reasons if reason.code))


def joined_texts(reasons: Iterable[Reason]) -> str:
    """The texts of several reasons, separated by semicolons."""
    return "; ".join(reason.text for reason in reasons if reason.text)
