# SPDX-License-Identifier: Apache-2.0
"""The core of the audits: findings, their selection, and the plan of their repairs. Pure.

An audit is a list of checks. Each check returns findings: codes and fields for programs, texts for
people. The codes and the names of the fields are an interface, which the page "Auditing
allocations" documents. The texts can change. What a repair contains is the audit's own.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from osc_placement import errors
from osc_placement.model.name import and_more
from osc_placement.plan import change, plan
from osc_placement.plan.reasons import Code, Reason
from osc_placement.workflows.cloud import problem
from osc_placement.workflows.cloud.problem import ProblemCode, Severity

R = TypeVar("R")

#: The code of everything that may be right, or that cannot be repaired with certainty.
UNKNOWN = problem.warning("unknown", "Unusual, but not certainly wrong.")

#: A compute service that was deleted by mistake looks like a host that is gone.
IF_IT_RUNS = (
    "if nova-compute still runs there: restart it, nova-manage cell_v2 discover_hosts, and add the"
    " host to its host aggregates again (an earlier snapshot names them). If not:"
)

#: A finding of both audits.
STALE_PROVIDER = problem.warning(
    "stale-provider", "Placement has a host that nova does not have any more."
)

#: JSON values. Providers, consumers, projects and users are UUIDs.
Fields = Mapping[str, Any]


class Remedy(enum.StrEnum):
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
    END_MOVE = "end-move"
    FIND_GUEST = "find-guest"
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

    action: Remedy
    text: str
    fields: Fields = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Finding(Generic[R]):
    """What is wrong with ``subject``, a consumer or a provider.

    A consumer has the name of its server, if that is known. ``hosts``: names of hosts, or of root
    providers that are not compute nodes. ``proposed`` describes ``repair``, or what to do without
    one.
    """

    code: ProblemCode
    subject: change.Subject
    hosts: tuple[str, ...]
    evidence: Evidence
    proposed: Proposal
    repair: R | None = None

    @property
    def is_repairable(self) -> bool:
        """Whether there is a certain repair."""
        return self.repair is not None

    def sort_key(self) -> tuple[bool, str, change.Subject]:
        """By code, unknown findings last."""
        return (self.code == UNKNOWN, self.code, self.subject)

    def as_unknown(self, reason: Reason, action: Remedy = Remedy.NONE) -> Finding[R]:
        """The finding without repair, for ``reason``."""
        return dataclasses.replace(
            self,
            code=UNKNOWN,
            evidence=Evidence(
                reason.code,
                f"it seems {self.code}: {self.evidence.text}",
                {"seems": str(self.code), **self.evidence.fields},
            ),
            proposed=Proposal(action, f"skipped: {reason.text}"),
            repair=None,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class AuditResult(Generic[R]):
    """The findings, and the plan that repairs them; the plan is empty without ``--repair``.

    ``not_checked`` are sentences about what may be wrong without a finding.
    """

    findings: Sequence[Finding[R]]
    planned: plan.ObservedPlan
    not_checked: Sequence[str] = ()


def unreadable(subject: change.Subject, hosts: tuple[str, ...], error: str) -> Finding[Any]:
    """The finding about a provider that cannot be read."""
    return Finding(
        UNKNOWN,
        subject,
        hosts,
        Evidence(Code.UNREADABLE, f"it cannot be read: {error}", {"error": error}),
        Proposal(Remedy.RUN_AGAIN, "run the command again"),
    )


def unread(findings: Iterable[Finding[Any]]) -> list[str]:
    """The subjects of findings about what could not be read, with the first reason; or nothing."""
    failed = [item for item in findings if item.evidence.cause is Code.UNREADABLE]
    names = and_more([item.subject.name or item.subject.uuid for item in failed], 2)
    return [f"{names}: {item.evidence.text}; {item.proposed.text}" for item in failed[:1]]


_NOT_CHECKED = ProblemCode("not-checked", Severity.NOT_CHECKED, "")


def unchecked(text: str) -> Finding[Any]:
    """The row about what may be wrong without a finding."""
    evidence = Evidence(Code.NONE, text, {"not_checked": text})
    return Finding(_NOT_CHECKED, change.Subject("", ""), (), evidence, Proposal(Remedy.NONE, ""))


def select(
    findings: Iterable[Finding[R]],
    hosts: Collection[str] = (),
    codes: Collection[str] = (),
    *,
    by_name: bool = False,
    subjects: Collection[str] = (),
) -> list[Finding[R]]:
    """The findings about some hosts and with some codes; an empty collection selects all.

    ``by_name``: ``hosts`` may also contain the names of subjects. ``subjects``: their UUIDs.
    """
    return [
        item
        for item in findings
        if (
            not hosts
            or not {*item.hosts}.isdisjoint(hosts)
            or (by_name and item.subject.name in hosts)
        )
        and (not codes or item.code in codes)
        and (not subjects or item.subject.uuid in subjects)
    ]


def plan_repair(
    findings: Iterable[Finding[R]],
    change_of: Callable[[Sequence[tuple[Finding[R], R]]], change.Change[Any]],
) -> plan.Plan:
    """One change for each subject with a repair; other findings are not in the plan.

    ``change_of`` gets all findings about one subject, each with its repair.
    """
    by_subject: dict[str, list[tuple[Finding[R], R]]] = {}
    for item in findings:
        if item.repair is not None:
            by_subject.setdefault(item.subject.uuid, []).append((item, item.repair))
    return plan.make(map(change_of, by_subject.values()))


def check_hosts(requested: Iterable[str], existing: Collection[str]) -> None:
    """Errors: InvalidInput with each requested host that neither service knows."""
    errors.InputErrors(
        f"nova has no compute host {host!r}, and Placement has no provider of that name"
        for host in sorted(set(requested) - {*existing})
    ).check()
