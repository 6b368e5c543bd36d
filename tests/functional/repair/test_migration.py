# SPDX-License-Identifier: Apache-2.0
"""``placement migration``: online data migrations in batches."""

from __future__ import annotations

import collections
import pathlib

import pytest

from osc_placement.testing import Cloud
from tests.support.peer import fixtures, shell
from tests.support.rows import Row, State, checked

SAMPLE = "12-hosts"
RECORDED = "--os-nova-recording 12-hosts --allow recorded-nova"
RUN = f"placement migration run {RECORDED}"
#: What there is to do on the sample cloud.
EXPECTED = {"mirror_host_aggregates": 11, "heal_allocations": 58, "complete_consumers": 7}
OTHERS = ("add_display_head_traits", "remove_display_head_inventories")
HEADS = {"VGPU": 4, "VGPU_DISPLAY_HEAD": {"total": 32, "max_unit": 4}}
ADD, REMOVE = (f"placement migration run --migration {name}" for name in OTHERS)


def counts(done: bool = True, **found: int) -> list[dict[str, object]]:
    """The rows of a run."""
    return [
        {"migration": name, "found": number, "done": number if done else 0}
        for name, number in (found or EXPECTED).items()
    ]


NOTES = ("mirror_host_aggregates: 3 refused;", "placement plan undo")
STATES = {
    "a gpu": State(Cloud().host("gpu", **HEADS)),
    "after all changes": State(SAMPLE, before=[RUN]),
}
TABLE = [
    Row(RUN, SAMPLE, 0, counts(), says=NOTES),
    Row(RUN, "after all changes", 0, counts(**dict.fromkeys(EXPECTED, 0))),
    # Display heads become traits without nova, in this order.
    Row(REMOVE, "a gpu", 0, "1 refused; run add_display_head_traits before;", unchanged=True),
    Row(ADD, "a gpu", 0, counts(add_display_head_traits=1)),
    Row(f"""{ADD}
            resource provider trait list gpu""", "a gpu", 0,
        [{"name": "HW_GPU_MAX_DISPLAY_HEADS_4"}]),
    Row(f"""{ADD}
            {REMOVE}
            resource provider inventory list gpu""", "a gpu", 0, [{"resource_class": "VGPU"}]),
]  # fmt: skip

test_a_command_shows_what_its_row_says = checked(TABLE, STATES)


test_an_option_or_a_list = fixtures.ON_ONE_TARGET(
    checked(
        [
            Row(f"{RUN} --dry-run", SAMPLE, 0, counts(done=False), unchanged=True),
            Row(f"{RUN} --migration nothing", SAMPLE, 127,
                "unknown migration nothing: use mirror_host_aggregates, ", unchanged=True),
            Row(f"{RUN} --max-count 0", SAMPLE, 127, unchanged=True),
            Row("placement migration list -f value -c migration", SAMPLE, 0, {*EXPECTED, *OTHERS}),
            Row("placement migration list", SAMPLE, 0,
                [{"migration": name, "by_default": name in EXPECTED}
                 for name in (*EXPECTED, *OTHERS)]),
        ],
        STATES,
    )
)  # fmt: skip


@fixtures.ON_ONE_TARGET
@pytest.mark.usefixtures("sample")
def test_limited_runs_continue_to_the_end(openstack: shell.OpenStack) -> None:
    done: collections.Counter[str] = collections.Counter()
    for limit, code, count in (("11", 1, 11), ("30", 1, 30), ("100", 1, 35), ("100", 0, 0)):
        listed = openstack.rows(f"{RUN} --max-count {limit}", code=code)
        assert sum(row["done"] for row in listed) == count
        done.update({row["migration"]: row["done"] for row in listed})
        if limit == "11":
            (cursor,) = pathlib.Path("home/osc-placement/migrations").iterdir()
            assert "mirror_host_aggregates" in cursor.read_text()
    assert done == EXPECTED


def test_list_needs_no_cloud() -> None:
    assert shell.run(["placement", "migration", "list"]).code == 0
