# SPDX-License-Identifier: Apache-2.0
"""``placement report write``: the page of a cloud, a snapshot and a plan."""

from __future__ import annotations

import collections
import functools
import html.parser
import itertools
import json
import pathlib
import re
import stat
import sys
from collections.abc import Callable

import bs4
import pytest

from osc_placement import testing
from tests.support import browser
from tests.support.peer import fixtures, shell, target as targets

_VOID = {"meta", "link", "br", "wbr", "rect"}
#: Elements whose end HTML lets a page leave out.
_OPEN_END = {"th", "td", "tr"}


class ReportPage(html.parser.HTMLParser):
    """Elements, texts and ids; ``structure`` is every element with its attributes, without texts.

    ``errors``: an end without a start, or an element that never ends.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        page = bs4.BeautifulSoup(text, "html.parser", multi_valued_attributes=None)
        tags = page.find_all()
        self.structure = [(tag.name, tuple(tag.attrs.items())) for tag in tags]
        self.elements = collections.Counter(tag.name for tag in tags)
        self.ids = collections.Counter(str(tag["id"]) for tag in page.select("[id]"))
        self.links = [str(tag[key]) for key in ("href", "src") for tag in page.select(f"[{key}]")]
        headings = page.find_all(re.compile("^h[1-6]$"))
        self.headings = [(int(tag.name[1]), tag.text) for tag in headings]
        for tag in page.find_all(lambda tag: tag.name not in ("wbr", "bdi")):
            tag.insert(0, " ")
        self.raw = page.text
        self.text = " ".join(self.raw.split())
        self.errors: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.errors += [f"<{tag}> does not end" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """It has no end of its own."""

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open[-1] != tag and self._open[-1] in _OPEN_END:
            self._open.pop()
        if not self._open or self._open.pop() != tag:
            self.errors.append(f"</{tag}> at {self.getpos()}")


RECORDED = ("--os-nova-recording", "12-hosts")
WRITE = "placement report write"
#: The page of a kind of names.
Written = Callable[[str], pathlib.Path]
ONE_TARGET = fixtures.ON_ONE_TARGET

#: Names that a page could take for something else, and those that do not fit.
HOSTILE = (
    "<script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    '"onmouseover="alert(1)',
    "&lt;b&gt; &amp; '\"",
    "{{ 7 * 7 }}{% raw %}",
    "\x1b[31mred\x1b[0m\x07\x00 \t\r\n",
    "\u202eevil\u202c\u2066",
    "\u0645\u0636\u064a\u0641-\u05de\u05d0\u05e8\u05d7",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 host",
    "x" * 200,
    f"{'y' * 500}<b>",
)
#: The last one is too long for Placement, and not for nova.
OF_PROVIDERS = len(HOSTILE) - 1


def write(openstack: shell.OpenStack, path: pathlib.Path, *arguments: str) -> ReportPage:
    """Write a report, and read it."""
    openstack.do(WRITE, "--output", str(path), *arguments)
    return ReportPage(path.read_text("utf-8"))


def test_the_page_has_what_the_commands_show(
    openstack: shell.OpenStack, target: targets.Target, tmp_path: pathlib.Path
) -> None:
    target.load("12-hosts")
    path = tmp_path / "report.html"
    fields = openstack(WRITE, "--output", str(path), *RECORDED)
    page = ReportPage(path.read_text("utf-8"))
    assert page.errors == []
    outcome = openstack.run("placement health show", *RECORDED, "-f", "json")
    health = json.loads(outcome.stdout)
    for row in health:
        assert row["code"] in page.text
        commands = (row["repair"] or row["show"] or "").split("; ")
        for command in commands if row["severity"] != "ok" else ():
            assert command in page.text
            assert not command or command.startswith("openstack ")
    assert (fields["errors"], fields["warnings"]) == tuple(
        sum(row["count"] for row in health if row["severity"] == severity)
        for severity in ("error", "warning")
    )
    fits = openstack("placement capacity show", "--flavor", "m1.small", *RECORDED)[0]
    assert f"m1.small {fits['hosts']} {fits['fits']:,} " in page.text
    listed = openstack("resource provider list")
    assert fields["providers"] == len(listed)
    hosts = [item["name"] for item in listed if item["name"].startswith(("cmp-00", "bm-"))]
    assert [name for name in hosts if name not in page.text] == []
    assert "Zone az1" in page.text


@ONE_TARGET
def test_the_page_is_one_file_with_an_order(
    openstack: shell.OpenStack, target: targets.Target, tmp_path: pathlib.Path
) -> None:
    target.load("12-hosts")
    page = write(openstack, tmp_path / "report.html", *RECORDED)
    assert [link for link in page.links if not link.startswith("#")] == ["data:,"]
    assert [link for link in page.links if link[0] == "#" and link[1:] not in page.ids] == []
    assert max(page.ids.values()) == 1
    assert page.elements["script"] == page.elements["img"] == 0
    assert [page.elements[tag] for tag in ("h1", "main", "header", "footer", "nav")] == [1] * 5
    levels = [level for level, _ in page.headings]
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert all(text.strip() for _, text in page.headings)
    # Each bar is beside its numbers, in a table or on a card.
    assert page.elements["table"] >= 6
    assert not any("style" in dict(attributes) for _, attributes in page.structure)


@ONE_TARGET
def test_without_nova_and_without_health(
    openstack: shell.OpenStack, target: targets.Target, tmp_path: pathlib.Path
) -> None:
    target.load("12-hosts")
    page = write(openstack, tmp_path / "report.html", "--no-health")
    assert "Flavors need nova: " in page.text
    assert "Repair" not in page.text
    assert "04223a25-417d-580c-a706-c4cd6aa4087d" in page.text


@ONE_TARGET
def test_an_empty_cloud(
    openstack: shell.OpenStack, target: targets.Target, tmp_path: pathlib.Path
) -> None:
    page = write(openstack, tmp_path / "report.html")
    assert page.errors == []
    assert "0 hosts in 0 providers" in page.text
    assert "No provider has an inventory." in page.text


@ONE_TARGET
def test_a_file_is_private_and_is_not_replaced_by_accident(
    openstack: shell.OpenStack, target: targets.Target, tmp_path: pathlib.Path
) -> None:
    path, other = tmp_path / "report.html", tmp_path / "notes.txt"
    write(openstack, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    code, text = openstack.fails(WRITE, "--output", str(path))
    assert (code, f"{path} exists: give another file, or --replace" in text) == (1, True)
    write(openstack, path, "--replace")
    for content in ("mine", "<!doctype html>\n<html><title>Placement report: mine</title></html>"):
        other.write_text(content)
        _, text = openstack.fails(WRITE, "--output", str(other), "--replace")
        assert f"{other} exists and is not a report" in text
        assert other.read_text() == content
    _, text = openstack.fails(WRITE, "--output", str(tmp_path), "--replace")
    assert str(tmp_path) in text


@ONE_TARGET
def test_a_missing_package_is_named_before_the_cloud_is_read(
    openstack: shell.OpenStack, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    _, text = openstack.fails(WRITE, "--output", str(tmp_path / "report.html"))
    assert "install 'osc-placement[report]'" in text
    assert not (tmp_path / "report.html").exists()


@pytest.fixture
def on_file(tmp_path: pathlib.Path) -> shell.OpenStack:
    """Commands on a file with the sample cloud."""
    target = targets.OnFile(tmp_path / "cloud.sqlite")
    target.load("12-hosts")
    return shell.OpenStack(target)


def test_a_plan_is_shown_before_and_after(on_file: shell.OpenStack, tmp_path: pathlib.Path) -> None:
    plan = str(tmp_path / "plan.json")
    amend = ("--resource", "VCPU:reserved=63", "--name-glob", "cmp-000[1-9]*", "--plan-out", plan)
    on_file.run("resource provider inventory amend", *amend, "--dry-run")
    impact = on_file("placement plan show", plan, "--impact", *RECORDED)
    page = write(on_file, tmp_path / "report.html", "--plan", plan, *RECORDED)
    assert page.errors == []
    assert "Before and after the plan" in page.text
    assert "VCPU:reserved=63" in page.text
    for row in impact:
        numbers = [
            row[f"{what}_{when}"] for when in ("before", "after") for what in ("hosts", "fits")
        ]
        assert " ".join(f"{number:,}" for number in numbers) in page.text, row
    stranded = {name for row in impact for name in row["stranded"]}
    assert f"{len(stranded)} running server" in page.text


def test_a_plan_is_shown_on_its_cloud(
    openstack: shell.OpenStack, target: targets.Target, tmp_path: pathlib.Path
) -> None:
    target.load("12-hosts")
    plan = str(tmp_path / "plan.json")
    amend = ("--resource", "VCPU:reserved=3", "--all", "--plan-out", plan)
    openstack.run("resource provider inventory amend", *amend, "--dry-run")
    outcome = openstack.run(WRITE, "--output", str(tmp_path / "r.html"), "--plan", plan, *RECORDED)
    assert outcome.code == 0, outcome
    for command in (
        ("placement plan show", plan, "--impact"),
        ("placement flavor audit", "--after", plan),
    ):
        outcome = openstack.run(*command, *RECORDED, "-f", "json")
        assert outcome.code in (0, 3), outcome
        assert json.loads(outcome.stdout)


def hostile_cloud(names: tuple[str, ...]) -> tuple[dict[str, object], dict[str, object]]:
    """The sample with these names of providers, and of nova's aggregates, flavors and zones."""
    document, nova = testing.sample_cloud("12-hosts"), testing.sample_nova("12-hosts")
    providers = list(document["providers"].values())
    renamed = {}
    for item, name in zip(providers, names[:OF_PROVIDERS], strict=False):
        renamed[item["name"]] = item["name"] = name
    text = json.dumps(nova)
    for old, new in renamed.items():
        text = text.replace(json.dumps(old), json.dumps(new))
    nova = json.loads(text)
    for aggregate, name in zip(
        nova["GET /v2.1/os-aggregates"]["aggregates"], names * 2, strict=False
    ):
        aggregate["name"] = name
        if "availability_zone" in aggregate["metadata"]:
            aggregate["metadata"]["availability_zone"] = name
    (listing,) = [key for key in nova if key.startswith("GET /v2.1/flavors/detail")]
    for flavor, name in zip(nova[listing]["flavors"], names, strict=False):
        flavor["name"] = name
    servers = [key for key in nova if key.startswith("GET /v2.1/servers/detail?all_tenants=1")]
    for server, name in zip(nova[servers[0]]["servers"], names * 9, strict=False):
        server["name"] = name
    return document, nova


NAMES = {
    "sample": (),
    "plain": tuple(f"name-{number}" for number in range(len(HOSTILE))),
    "hostile": HOSTILE,
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """The page of the sample cloud with names of this kind, and with a plan that fills hosts."""

    @functools.cache
    def write_page(kind: str) -> pathlib.Path:
        folder = tmp_path_factory.mktemp(kind)
        document, nova = hostile_cloud(NAMES[kind])
        openstack = shell.OpenStack(targets.OnFile(folder / "cloud.sqlite"))
        openstack.target.load(document)
        recording, path, plan = (folder / name for name in ("nova.json", "r.html", "plan.json"))
        recording.write_text(json.dumps(nova))
        amend = ("--resource", "VCPU:reserved=63", "--all", "--plan-out", str(plan), "--dry-run")
        openstack.run("resource provider inventory amend", *amend)
        files = ("--output", str(path), "--plan", str(plan), "--os-nova-recording", str(recording))
        openstack.do(WRITE, *files)
        return path

    return write_page


def test_no_element_or_attribute_comes_from_a_name(written: Written) -> None:
    page = ReportPage(written("hostile").read_text("utf-8"))
    reference = ReportPage(written("plain").read_text("utf-8"))
    assert page.errors == []

    def shape(of: ReportPage) -> collections.Counter[str]:
        """Without what names decide: where lines may break, and which full hosts have a note."""
        counted = [item for item in of.structure if item[0] not in ("wbr", "small")]
        names = [(tag, *dict(attributes)) for tag, attributes in counted]
        return collections.Counter(map(" ".join, names))

    def attributes(of: ReportPage) -> set[tuple[str, str, str | None]]:
        return {(tag, name, value) for tag, some in of.structure for name, value in some}

    assert shape(page) == shape(reference)
    assert attributes(page) == attributes(reference)
    assert "<script>alert(1)</script>" in page.text
    assert [char for char in page.raw if not (char.isprintable() or char == "\n")] == []
    assert "\\x1b[31mred\\x1b[0m" in page.raw
    assert "\\u202eevil" in page.raw
    assert "{{ 7 * 7 }}" in page.text


needs_chromium = pytest.mark.skipif(browser.CHROMIUM is None, reason="Chromium is not installed")

#: The right end of what is visible outside a part that scrolls by itself, and of the page.
WIDTHS = """[...document.body.querySelectorAll("*")]
    .filter(item => !item.closest(".wide, nav, .skip, .hosts a"))
    .map(item => item.getBoundingClientRect().right)
    .reduce((a, b) => Math.max(a, b), document.documentElement.scrollWidth)"""

#: Whether the details of the focused host are visible.
SHOWN = """(() => { const box = document.querySelector(".hosts a:focus > span")
    ?.getBoundingClientRect(); return box ? [box.width > 200, box.height > 40,
    box.bottom <= innerHeight, document.activeElement.href.split("#")[1]] : null })()"""


@needs_chromium
@pytest.mark.parametrize("kind", ["sample", "hostile"])
def test_a_browser_shows_it_without_requests_errors_and_overflow(
    kind: str, written: Written
) -> None:
    path = written(kind)
    with browser.opened() as tab:
        for width in (360, 390, 760, 1280):
            for dark in (False, True):
                tab.open(path, width, dark=dark, printed=width == 760)
                assert tab.evaluate(WIDTHS) <= width
        assert (tab.requests, tab.log) == ([], [])


#: The tables that scroll by themselves, with the details open.
SCROLLED = """[...document.querySelectorAll(".wide")].filter(part => {
    (part.closest("details") ?? part).open = true; return part.scrollWidth > part.clientWidth })
    .map(part => part.ariaLabel)"""


@needs_chromium
def test_nine_resource_classes_fit_a_window_of_1280_pixels(written: Written) -> None:
    path = written("sample")
    with browser.opened() as tab:
        tab.open(path, 1280)
        assert tab.evaluate("document.querySelectorAll('.bars thead th').length") == 11
        assert tab.evaluate(SCROLLED) == []


@needs_chromium
def test_the_keyboard_reaches_the_details_of_a_host_and_its_class(
    written: Written,
) -> None:
    path = written("sample")
    with browser.opened() as tab:
        tab.open(path, 390)
        tab.press("Tab", 9)
        assert tab.evaluate("document.activeElement.className") == "skip"
        for _ in range(60):
            tab.press("Tab", 9)
            if shown := tab.evaluate(SHOWN):
                break
        assert shown == [True, True, True, "h1"]
        # Without a pointer or focus, the link to the details shows them, and does not scroll.
        tab.evaluate("document.activeElement.blur()")
        before = tab.evaluate("scrollY")
        tab.evaluate("location.hash = '#h2'")
        box = "document.querySelector('#h2').getBoundingClientRect().height"
        assert tab.evaluate(f"{box} > 40")
        assert tab.evaluate("scrollY") == before
        tab.evaluate("location.hash = '#hosts'")
        assert tab.evaluate(f"{box} < 2")


@needs_chromium
def test_on_paper_the_legend_begins_a_page_together_with_its_map(
    written: Written,
) -> None:
    path = written("sample")
    breaks = "getComputedStyle(document.querySelector('.legend').closest('.map')).breakBefore"
    with browser.opened() as tab:
        for printed, value in ((True, "page"), (False, "auto")):
            tab.open(path, 760, printed=printed)
            assert tab.evaluate(breaks) == value
