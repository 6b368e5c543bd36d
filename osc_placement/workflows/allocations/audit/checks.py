"""The checks of the audit. A new check is a file in this folder and an entry here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from osc_placement.workflows.allocations.audit import (
    missing,
    orphaned,
    providers,
    wrong_host,
    wrong_size,
)
from osc_placement.workflows.allocations.audit.finding import AuditContext, Finding
from osc_placement.workflows.allocations.snapshot import CloudSnapshot
from osc_placement.workflows.finding import UNKNOWN


class Check(NamedTuple):
    """``find`` returns findings with ``codes``, in the order in which to repair them."""

    find: Callable[[CloudSnapshot, AuditContext], Iterator[Finding]]
    codes: tuple[str, ...]


#: The checks of a step judge the snapshot after the repairs of the steps before. The first step
#: frees what nothing uses, for servers that lack allocations.
STEPS: Sequence[Sequence[Check]] = (
    (
        Check(providers.find, providers.CODES),
        Check(orphaned.find, orphaned.CODES),
        Check(wrong_host.find, wrong_host.CODES),
    ),
    (Check(wrong_size.find, wrong_size.CODES),),
    (Check(missing.find, missing.CODES),),
)

#: In the order in which the repairs of one consumer build on each other.
REPAIR_ORDER = tuple(code for step in STEPS for check in step for code in check.codes)

#: In the order in which the summary lists them.
CODES = (
    *orphaned.CODES,
    wrong_host.DOUBLED,
    missing.MISSING,
    wrong_host.WRONG_HOST,
    *wrong_size.CODES,
    missing.WRONG_OWNER,
    missing.INCOMPLETE,
    *providers.CODES,
    UNKNOWN,
)
