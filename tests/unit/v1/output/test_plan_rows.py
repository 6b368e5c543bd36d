"""The rows of a plan's results."""

from __future__ import annotations

from osc_placement.plan import change, result
from osc_placement.plan.kinds import allocations
from osc_placement.v1.output import plan_rows

_STATE = allocations.ConsumerState({"p": {"VCPU": 2}})
_RESULTS = [
    result.ChangeResult("allocations", change.Subject(name, uuid), _STATE, _STATE, status)
    for name, uuid, status in (
        ("vm-1", "u1", result.Status.UNCHANGED),
        ("vm-2", "u2", result.Status.SKIPPED),
    )
]


def test_rows_can_be_read_more_than_once_and_are_not_kept() -> None:
    rows = plan_rows.ResultRows(_RESULTS, {"p": "cmp-1"})
    assert len(rows) == 2
    assert [*rows] == [*rows]
    assert all(one is not other for one, other in zip(rows, rows, strict=True))
    name, uuid, before, _, status, *_ = next(iter(rows))
    assert (name, uuid, status) == ("vm-1", "u1", "unchanged")
    assert before.machine_readable() == {"p:VCPU": 2}
    assert before.human_readable() == "cmp-1:VCPU=2"


def test_rows_contain_a_row_with_equal_cells() -> None:
    rows = plan_rows.ResultRows(_RESULTS, {})
    assert [*rows][1] in rows
    assert ("vm-3",) not in rows
