# SPDX-License-Identifier: Apache-2.0
"""The page "Servers that move": its tables are those of the model and of what the commands say.

``python -m tests.unit.workflows.moving.test_moves_page`` writes them into the page.
"""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Iterable, Iterator, Sequence

from osc_placement.testing import uuid_of
from osc_placement.workflows.cloud import server_moves
from osc_placement.workflows.cloud.server_moves import Cost, Phase, StatusRow
from osc_placement.workflows.repair.allocations import heal
from osc_placement.workflows.repair.allocations.heal_request import HealRequest
from tests.support import moving_cloud
from tests.support.moving_cloud import DESTINATION, SERVER, SOURCE
from tests.unit.workflows.moving import test_circle
from tests.unit.workflows.repair.allocations.test_stuck import findings

PAGE = pathlib.Path(__file__).parents[4] / "doc/source/user/moving/moving-servers.rst"

#: An evacuation that is over, until its source starts again.
_EVACUATED = StatusRow(Phase.OVER, Cost.NOTHING, Cost.GUEST)
_ENDS = {"": "nothing", "s": "the source", "d": "the destination", "sd": "both"}
_ANSWERS = {
    "resting": "yes, if it has a place elsewhere",
    "held": "no",
    "doubtful": "unknown",
    "gone": "yes: it is not there any more",
    "": "yes: it is not there",
}


def list_table(rows: Iterable[Sequence[str]]) -> str:
    """A table in reStructuredText."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in rows:
        lines += [f"   {'  ' if at else '* '}- {cell}" for at, cell in enumerate(row)]
    return "\n".join(lines) + "\n"


def of_statuses() -> Iterator[tuple[str, ...]]:
    """A row for each type and status: its tasks, phase, holders, and what each end is worth."""
    yield (
        "type and status",
        "task of the server",
        "phase",
        "who holds what",
        "the loss of the source costs",
        "the loss of the destination costs",
    )
    for types in (
        (server_moves.LIVE,),
        (server_moves.COLD, server_moves.RESIZE),
        (server_moves.EVACUATION,),
    ):
        rows = dict(server_moves.TABLE[types[0]])
        assert all(server_moves.TABLE[each] == rows for each in types)
        if types == (server_moves.EVACUATION,):
            rows["done"] = _EVACUATED
        for row in dict.fromkeys(rows.values()):
            statuses = [status for status, each in rows.items() if each == row]
            steps = [
                step
                for kind, every in moving_cloud.PROTOCOLS.values()
                for step in every
                if kind in types and step.status in statuses
            ]
            tasks = dict.fromkeys(step.task or "none" for step in steps)
            held = dict.fromkeys(
                f"server: {_ENDS[step.server]}; migration: {_ENDS[step.migration]}"
                for step in steps
            )
            yield (
                f"{', '.join(types)}: {', '.join(statuses)}",
                ", ".join(tasks),
                str(row.phase),
                ", or ".join(held),
                row.source.text,
                row.destination.text,
            )


def of_commands() -> Iterator[tuple[str, ...]]:
    """A row for each phase, with and without a task: what the commands say in all its views."""
    yield ("phase", "task", "host check of the source", "of the destination", "audit", "heal")
    said: dict[tuple[Phase, bool], list[dict[str, None]]] = collections.defaultdict(
        lambda: [{}, {}, {}, {}]
    )
    for group in moving_cloud.truths().values():
        view = group[0]
        snapshot = view.reading()
        phase = server_moves.move_of(snapshot, snapshot.servers[SERVER]).phase
        by_state = test_circle.joined(snapshot).by_state
        answers = []
        for host in (SOURCE, DESTINATION):
            key = (SERVER, uuid_of(host))
            found = (name for name in by_state._fields if key in getattr(by_state, name))
            answers.append(_ANSWERS[next(found, "")])
        codes = dict.fromkeys(item.code for item in findings(snapshot)) or {"no finding": None}
        planned = heal.plan_heal(snapshot, HealRequest())
        reasons = [f"skipped: {item.code}" for item in planned.skipped if item.reason]
        for column, text in zip(
            said[phase, bool(view.step.task)],
            (*answers, " and ".join(codes), *(reasons or ["compares its allocations"])),
            strict=True,
        ):
            column[text] = None
    for phase in Phase:
        for task in (True, False):
            if (phase, task) in said:
                columns = (", or ".join(sorted(column)) for column in said[phase, task])
                yield (str(phase), "some" if task else "none", *columns)


def parts() -> list[str]:
    return [list_table(of_statuses()), list_table(of_commands())]


def test_the_tables_of_the_page_are_those_of_the_model() -> None:
    text = PAGE.read_text()
    for table in parts():
        assert table in text, f"python -m {__name__}"


def write() -> None:
    """Replace the tables of the page."""
    blocks = PAGE.read_text().split(".. list-table::\n")
    assert len(blocks) == 3
    texts = [block.partition("\n\n")[2].split("\n") for block in blocks[1:]]
    after = ["\n".join(_behind(lines)) for lines in texts]
    first, second = parts()
    PAGE.write_text(f"{blocks[0]}{first}{after[0]}{second}{after[1]}")


def _behind(lines: list[str]) -> list[str]:
    """The lines after the rows of a table."""
    at = next((at for at, line in enumerate(lines) if line[:1].strip()), len(lines))
    return ["", *lines[at:]]


if __name__ == "__main__":
    write()
