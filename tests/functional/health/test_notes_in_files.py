# SPDX-License-Identifier: Apache-2.0
"""What an answer leaves open stands in each file and page too, not on standard error alone."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import markdown_it
import pytest
from prometheus_client import parser

from osc_placement import testing
from tests.functional.health.test_report import ReportPage
from tests.support.peer import shell, target as targets

Answers = dict[str, Any]

_SERVICES, _NODES = "GET /v2.1/os-services", "GET /v2.1/os-hypervisors/detail"
_FLAVORS = "GET /v2.1/flavors/detail?is_public=None"
_KINDS = ("Not counted", "Not checked", "Effect not known", "Not applied to the copy", "Assumed")


def down(nova: Answers) -> None:
    """All compute services are down: no host is counted."""
    for service in nova[_SERVICES]["services"]:
        service["state"] = "down"


def alias(nova: Answers) -> None:
    """A flavor requests a device of which only nova.conf says what it is."""
    flavor = nova[_FLAVORS]["flavors"][0]
    flavor["extra_specs"] = {"pci_passthrough:alias": "<b>gpu</b>:1"}


#: ``{cloud: (change of nova's answers, the kinds of notes that it has)}``
CLOUDS: dict[str, tuple[Callable[[Answers], object], set[str]]] = {
    "as it is": (lambda _: None, {"Not counted", "Not checked", "Assumed"}),
    "down": (down, {"Not counted", "Effect not known", "Assumed"}),
    "no services": (lambda nova: nova.pop(_SERVICES), {"Not checked", "Assumed"}),
    "no hypervisors": (lambda nova: nova.pop(_NODES), {"Not checked", "Assumed"}),
    "no aggregates": (
        lambda nova: nova.pop("GET /v2.1/os-aggregates"),
        {"Not counted", "Not checked", "Assumed"},
    ),
    "alias": (alias, {"Not counted", "Not checked", "Assumed"}),
}


def planned(nova: Answers) -> tuple[shell.OpenStack, tuple[str, ...]]:
    """Commands on a file with a plan, ``plan.json``; the options for nova."""
    target = targets.OnFile(pathlib.Path("cloud.sqlite"))
    target.load("12-hosts")
    openstack = shell.OpenStack(target)
    pathlib.Path("nova.json").write_text(json.dumps(nova))
    amend = "resource provider inventory amend --name-glob cmp-000* --resource VCPU:reserved=63"
    openstack.do(amend, "--dry-run", "--plan-out", "plan.json", "--max-percent=100")
    return openstack, ("--os-nova-recording", "nova.json")


@pytest.fixture(params=CLOUDS)
def cloud(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[shell.OpenStack, tuple[str, ...], set[str]]:
    """Commands on a file with a plan, nova's answers, and the kinds of notes."""
    change, kinds = CLOUDS[request.param]
    monkeypatch.chdir(tmp_path)
    nova = testing.sample_nova("12-hosts")
    change(nova)
    return *planned(nova), kinds


@pytest.mark.parametrize("listing", ["GET /v2.1/servers/detail", "GET /v2.1/flavors"])
def test_the_report_of_a_plan_says_what_nova_did_not_show(
    listing: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nova = testing.sample_nova("12-hosts")
    left = {name: answer for name, answer in nova.items() if not name.startswith(listing)}
    openstack, recorded = planned(left)
    openstack.do("placement report write --no-health --plan plan.json --output r.html", *recorded)
    page = one_line(ReportPage(pathlib.Path("r.html").read_text("utf-8")).text)
    answer = f"nova.json holds no response to {listing.replace('/v2.1', '')}"
    assert f"not checked Flavors and servers: {answer}" in page


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_the_pages_of_a_plan_have_each_note(
    cloud: tuple[shell.OpenStack, tuple[str, ...], set[str]], tmp_path: pathlib.Path
) -> None:
    openstack, recorded, kinds = cloud
    show = ("placement plan show plan.json --impact", *recorded)
    shown = openstack.run(*show, "-f", "json")
    notes = [
        (kind, text)
        for kind, colon, text in (line.partition(": ") for line in shown.stderr.splitlines())
        if kind in (*_KINDS, "Note")
    ]
    assert {kind for kind, _ in notes} == {*kinds, "Note"}

    markdown = openstack.run(*show, "-f", "markdown").stdout
    renderer = markdown_it.MarkdownIt("commonmark", {"html": True}).enable("table")
    page = one_line(ReportPage(renderer.render(markdown)).text)
    path = tmp_path / "report.html"
    openstack.do("placement report write --plan plan.json --output", str(path), *recorded)
    report = one_line(ReportPage(path.read_text("utf-8")).text)
    for kind, text in notes:
        assert f"{kind.lower()}: {text}" in page
        # The page of a cloud has what the plan means; what its changes mean is in the plan.
        assert kind == "Note" or f"{kind.lower()}: {text}" in report

    rows = json.loads(shown.stdout)
    assert all(row.keys() == rows[0].keys() and " " not in "".join(row) for row in rows)
    not_counted = {f"{item['host']}" for row in rows for item in row["not_counted"]}
    said = " ".join(text for kind, text in notes if kind == "Not counted")
    assert not_counted == {*said.replace(",", "").split()} & not_counted
    assert bool(not_counted) == ("Not counted" in kinds)
    of_rows = {text for row in rows for text in row["not_checked"]}
    open_notes = [text for kind, text in notes if kind in ("Not checked", "Effect not known")]
    for text in open_notes:
        assert any(text.endswith(cell.removeprefix("the effect: ")) for cell in of_rows), text
    for cell in of_rows:
        assert any(text.endswith(cell.removeprefix("the effect: ")) for text in open_notes), cell


def test_what_health_did_not_check_is_in_the_report_and_a_series(
    cloud: tuple[shell.OpenStack, tuple[str, ...], set[str]], tmp_path: pathlib.Path
) -> None:
    openstack, recorded, _ = cloud
    rows = json.loads(openstack.run("placement health show -f json", *recorded).stdout)
    listed = [(row["code"], row["first"]) for row in rows if row["severity"] == "not checked"]
    # A reason that several areas have is said once.
    unread = {(area, text) for areas, text in listed for area in areas.split(", ")}
    assert unread
    path, textfile = tmp_path / "report.html", tmp_path / "cloud.prom"
    openstack.do("placement report write --output", str(path), *recorded)
    openstack.do("placement metrics write --textfile", str(textfile), *recorded)
    page = one_line(ReportPage(path.read_text("utf-8")).text)
    series, assumptions = (
        {
            tuple(sample.labels[label] for label in labels)
            for family in parser.text_string_to_metric_families(textfile.read_text())
            for sample in family.samples
            if sample.name == f"openstack_placement_{name}"
        }
        for name, labels in (("not_checked", ("area", "reason")), ("assumed", ("text",)))
    )
    of_metrics = {"host_info", "servers_not_movable"}
    assert {row for row in series if row[0] not in of_metrics} == unread
    for _, text in unread:
        assert one_line(text) in page

    impact = openstack.run("placement plan show plan.json --impact", *recorded).stderr
    assert ("servers stranded: not checked" in impact) == ("stranded servers: " in impact)
    lines = [line for line in impact.splitlines() if line.startswith("Not checked: ")]
    assumed = [line for line in impact.splitlines() if line.startswith("Assumed: ")]
    # Of flavors that health did not read, the plan says what it knows.
    if not any({"flavors", "servers"} <= {*areas.split(", ")} for areas, _ in listed):
        for line in lines:
            assert any(line.endswith(reason) for _, reason in series), line
    assert {f"Assumed: {text}" for (text,) in assumptions} == {*assumed}
    # Without health, each flavor has its own.
    openstack.do("placement report write --no-health --replace --output", str(path), *recorded)
    page = one_line(ReportPage(path.read_text("utf-8")).text)
    for line in lines:
        assert line.removeprefix("Not checked: ").rpartition(": ")[2] in page
    assert all(line in page for line in assumed)
