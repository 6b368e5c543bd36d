# SPDX-License-Identifier: Apache-2.0
"""``plan show -f markdown``: complete, and no name becomes markup."""

from __future__ import annotations

import json
import pathlib

import bs4
import markdown_it
import pytest

from osc_placement.plan import file as plan_file
from osc_placement.plan.kinds import registry
from osc_placement.v1.output import markdown, rows
from osc_placement.v1.plan import plan_page
from osc_placement.workflows.batch import batch
from osc_placement.workflows.health import impact
from tests.support import batch_runs, embedded

ALLOWED = {
    *("h2", "h3", "p", "ul", "li", "code", "br", "strong", "details", "summary"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}

HOSTILE = {
    "html": "<script>alert(1)</script><img src=x onerror=y>",
    "pipe": "a|b|c",
    "backticks": "```\n# x\n``` `a` ``b",
    "newlines": "a\n\n# heading\r\n* item\n</details>",
    "entity": "&lt;b&gt; &#60;",
    "link": "[x](javascript:alert(1)) https://example.org @everyone #12 !9 ~x~ :tada:",
    "emphasis": "**a** _b_ \\*c\\*",
    "control": "a\x00\x1b[31m\u2028\u202eabc",
    "emoji": "🙂é日本",
    "surrogate": "a\ud800b",
}


def rendered(lines: list[str]) -> bs4.BeautifulSoup:
    renderer = markdown_it.MarkdownIt("commonmark", {"html": True}).enable("table")
    return bs4.BeautifulSoup(renderer.render("\n".join(lines)), "html.parser")


def code_of(page: bs4.BeautifulSoup) -> list[str]:
    return [tag.text for tag in page.find_all("code")]


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_name_is_shown_as_it_is(name: str) -> None:
    page = markdown.folded(
        "1 change", markdown.table(("name", "after"), [(markdown.code(name), "x")] * 2)
    )
    reader = rendered([*page, f"## {markdown.escaped(name)}", f"* note: {markdown.code(name)}"])
    assert {tag.name for tag in reader.find_all()} <= ALLOWED
    assert not any(tag.attrs for tag in reader.find_all())
    assert code_of(reader) == [rows.printable(name)] * 3
    assert len(reader.text.encode()) > 0


def test_a_long_name_is_cut() -> None:
    assert code_of(rendered([markdown.code("n" * 500)])) == ["n" * 300 + "…"]


def test_every_change_of_a_plan_is_on_the_page(tmp_path: pathlib.Path) -> None:
    hosts = [*embedded.hosts(3), embedded.Host("a|<b>`c`\n")]
    client = embedded.Client(hosts)
    planned = batch.plan_amend(client, batch_runs.IN_AGGREGATE, ["VCPU:allocation_ratio=20"])
    plan = planned.stamped(client, "amend | <all>").plan
    path = tmp_path / "plan.json"
    plan_file.write(path, plan)
    page = plan_page.page(plan_file.read(path))
    reader = rendered(page)
    assert {tag.name for tag in reader.find_all()} <= ALLOWED
    for change in plan.changes:
        assert rows.printable(change.subject.name) in code_of(reader)
    assert "4 changes" in reader.text
    assert "VCPU:allocation_ratio=20.0" in code_of(reader)
    assert "amend | <all>" in code_of(reader)
    assert json.loads(path.read_text())["digest"] in code_of(reader)
    assert all(item.kind in registry.CHANGE_TYPES for item in plan.changes)


def test_the_impact_shows_lost_flavors_and_folds_the_others() -> None:
    fits = impact.FlavorFits
    shown = impact.Impact(
        (
            impact.FlavorImpact("1", "a|<b>", fits(3, 9), fits(0, 0)),
            impact.FlavorImpact("2", "spare", fits(2, 9), fits(1, 4)),
            impact.FlavorImpact("3", "same", fits(2, 9), fits(2, 9)),
            impact.FlavorImpact(
                "4",
                "hidden",
                fits(0, 0, not_counted=("uuid",)),
                fits(0, 0, not_counted=("uuid",)),
                not_counted={"cmp-7": "nova-compute down"},
            ),
            impact.FlavorImpact("5", "last", fits(1, 4), fits(1, 2)),
            impact.FlavorImpact("6", "more", fits(1, 4), fits(2, 9)),
        ),
        ("inventories <x>: failed",),
    )
    client = embedded.Client(embedded.hosts(1))
    plan = (
        batch.plan_amend(client, batch_runs.IN_AGGREGATE, ["VCPU:allocation_ratio=20"])
        .stamped(client, "x")
        .plan
    )
    reader = rendered(plan_page.page(plan, shown))
    assert "Flavors lost: 1; newly on one host only: 1;" in reader.text
    assert "3 → 0" in reader.text
    assert "2 unchanged flavors" in reader.text
    assert [item.n_minus_1 for item in shown.flavors] == [
        *("lost", "lost", "kept", "no", "no", "gained")
    ]
    assert {"a|<b>", "spare", "same", "inventories <x>: failed"} <= {*code_of(reader)}
    assert "not counted: cmp-7 (nova-compute down)" in reader.text
    assert "effect not known: hidden" in reader.text
