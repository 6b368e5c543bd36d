"""The solver, as those see it who may not need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from osc_placement.workflows.reshape.assignment import deadline, item

if TYPE_CHECKING:
    from osc_placement.workflows.reshape.assignment import solver

#: How hard a question is tried whose answer is only a preference. It is counted in Z3's own
#: steps and not in seconds, so that the answer does not depend on the machine.
EFFORT = 1_000_000


class Proof:
    """Makes one solver per problem, when it is first asked for."""

    def __init__(self, until: deadline.Deadline) -> None:
        self.until = until

    def of(self, problem: item.Problem) -> solver.Solver:
        # Z3 takes a tenth of a second to import, and most assignments do without it.
        from osc_placement.workflows.reshape.assignment import solver

        return solver.Solver(problem, self.until)
