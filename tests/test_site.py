# SPDX-License-Identifier: Apache-2.0
"""The built documentation: links, anchors, width of examples, index, and man pages."""

from __future__ import annotations

import fcntl
import json
import pathlib
import re
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator

import bs4
import pytest

from tests.support import browser, guide, tables
from tests.support.peer import process

DOCS = guide.DOCS


def build(builder: str, folder: pathlib.Path) -> pathlib.Path:
    """Build the documentation in a process of its own; a warning is an error."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", builder]
    ended = subprocess.run(
        [*command, "-d", str(folder / "doctrees"), str(DOCS), str(folder / builder)],
        cwd=process.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return folder / builder


class Page:
    """The links, ids and preformatted texts of an HTML page."""

    def __init__(self, path: pathlib.Path) -> None:
        page = bs4.BeautifulSoup(path.read_text("utf-8"), "html.parser")
        self.links = [str(tag[key]) for key in ("href", "src") for tag in page.select(f"[{key}]")]
        self.ids = {tag["id"] for tag in page.select("[id]")}
        self.examples = [tag.text for tag in page.find_all("pre")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> pathlib.Path:
    """The HTML pages, which one worker of pytest-xdist builds for all."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "site"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "html" / "searchindex.js").exists():
            build("html", folder)
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: pathlib.Path) -> dict[pathlib.Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def broken(path: pathlib.Path, pages: dict[pathlib.Path, Page]) -> Iterator[str]:
    """The links of a page to a file or an id that does not exist."""
    for link in pages[path].links:
        address = urllib.parse.urlsplit(link)
        if address.scheme or address.netloc:
            continue
        name = urllib.parse.unquote(address.path)
        target = (path.parent / name).resolve() if name else path
        ids = pages[target].ids if target in pages else {address.fragment}
        if not target.exists() or (address.fragment and address.fragment not in ids):
            yield link


def test_every_local_link_leads_to_a_page_and_an_id(pages: dict[pathlib.Path, Page]) -> None:
    assert len(pages) > 50
    assert {path.name: links for path in pages if (links := list(broken(path, pages)))} == {}


def test_every_page_has_a_breadcrumb_and_the_captions(
    site: pathlib.Path, pages: dict[pathlib.Path, Page]
) -> None:
    captions = ["Start here", "Reference", "About", "Contributing"]
    for path in pages:
        if path.name in ("index.html", "genindex.html", "search.html") and path.parent == site:
            continue
        text = path.read_text("utf-8")
        assert 'class="breadcrumb"' in text, path
        assert [name for name in captions if f'caption-text">{name}<' not in text] == []


#: Columns of an example that fit beside the navigation at 1280 pixels.
FITTING = 110
#: The lab prints the output of these pages, in a wider terminal.
OF_THE_LAB = "recipe-"


def test_examples_fit_the_page(pages: dict[pathlib.Path, Page]) -> None:
    wide = {
        f"{path.name}: {line[:60]}"
        for path, page in pages.items()
        if not path.name.startswith(OF_THE_LAB)
        for example in page.examples
        for line in example.splitlines()
        # A text in JSON or CSV has no place to divide it.
        if len(line) > FITTING and not line.lstrip().startswith('"')
    }
    assert wide == set()


def test_no_synopsis_divides_a_metavar(pages: dict[pathlib.Path, Page]) -> None:
    lines = [
        line.strip()
        for page in pages.values()
        for example in page.examples
        for line in example.splitlines()
    ]
    assert "--resource <resource_class>:<field>=<value>" in lines
    assert [line for line in lines if re.match(r"[:=,]\S*<", line)] == []


def test_the_release_notes_are_a_page_for_an_operator_of_4_x(site: pathlib.Path) -> None:
    text = (site / "about" / "release-notes.html").read_text("utf-8")
    titles = ["New features", "Upgrading", "Deprecations", "Fixed", "Security"]
    places = [text.find(f"<h3>{title}<") for title in titles]
    assert -1 not in places
    assert places == sorted(places)
    assert "osc-placement 5 is a new implementation" in text
    assert "To go back, run" in text


def test_no_option_is_printed_with_a_typographic_dash(pages: dict[pathlib.Path, Page]) -> None:
    assert [path.name for path in pages if re.search("\u2013[a-z]", path.read_text("utf-8"))] == []


#: ``{a word of operators: the page that an index entry of this word leads to}``. The search of the
#: pages ranks an entry with exactly this word before titles and texts.
KEYWORDS = {
    **dict.fromkeys(("drain", "maintenance", "evacuate", "retire"), "user/moving/drain"),
    **dict.fromkeys(("reboot", "evacuation"), "user/moving/host-check"),
    **dict.fromkeys(("migrate", "live migration", "resize"), "user/moving/moving-servers"),
    **dict.fromkeys(("overcommit", "oversubscribed", "rollback"), "user/batch/batch"),
    **dict.fromkeys(("throttle", "429"), "user/batch/batch"),
    **dict.fromkeys(("401", "403", "404", "409", "forbidden"), "start/troubleshooting"),
    "completion": "start/how-do-i",
    **dict.fromkeys(("region", "kolla", "container"), "start/regions-and-containers"),
    **dict.fromkeys(("compute service delete", "disaster"), "start/after-a-mistake"),
    **dict.fromkeys(("proxy", "certificate", "cacert", "ssl"), "start/troubleshooting"),
    "application credential": "start/troubleshooting",
    **dict.fromkeys(("ctrl-c", "interrupt"), "user/batch/batch"),
    "upgrade": "user/health/upgrade",
    "rename": "user/reshape/recipe-replace-host",
    "orphan": "user/repair/audit",
    "quota": "cli/usage",
    "prometheus": "user/health/metrics",
    "grafana": "user/health/metrics",
    "json": "user/reference/output",
    "gpu": "user/reshape/recipe-vgpu",
    **dict.fromkeys(("headroom", "ceph"), "user/capacity/capacity"),
    "read-only": "about/security",
    "pin": "about/support",
}


@pytest.mark.parametrize(("word", "page"), sorted(KEYWORDS.items()))
def test_a_word_of_operators_leads_to_its_page_first(
    site: pathlib.Path, word: str, page: str
) -> None:
    text = (site / "searchindex.js").read_text("utf-8")
    index = json.loads(text[text.index("{") : text.rindex("}") + 1])
    entries = index["indexentries"][word]
    assert all(is_main for _, _, is_main in entries)
    found = [index["docnames"][number] for number, _, _ in entries]
    assert page in found
    assert len(found) <= 3


needs_chromium = pytest.mark.skipif(browser.CHROMIUM is None, reason="Chromium is not installed")
#: The width of a phone, and how high the letters of a picture are there at least, in CSS pixels.
PHONE, READABLE = 390, 8

#: ``[[file, width]]`` of the pictures in the text of a page.
SHOWN = """[...document.querySelectorAll(".content img")]
    .map(item => [item.src.split("/").pop(), item.getBoundingClientRect().width])"""


@needs_chromium
def test_pictures_are_readable_on_a_phone_and_no_page_scrolls_sideways(
    site: pathlib.Path, pages: dict[pathlib.Path, Page]
) -> None:
    with_pictures = [
        path for path in pages if any("_images/" in link for link in pages[path].links)
    ]
    seen = set()
    with browser.opened() as tab:
        for path in with_pictures:
            tab.open(path, PHONE, dark=True)
            assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE, path
            for name, width in tab.evaluate(SHOWN):
                seen.add(name)
                if name.endswith(".svg"):
                    text = (site / "_images" / name).read_text()
                    box = re.search(r'viewBox="\S+ \S+ (\S+) ', text)
                    assert box, name
                    sizes = [
                        float(size) for size in re.findall(r'font-size[=:]"?\s*([\d.]+)', text)
                    ]
                    assert min(sizes) * width / float(box[1]) >= READABLE, name
                else:
                    assert width > 2 * (PHONE - 50), name
        assert {"terminal.svg", "report.webp", "tree.svg"} <= seen


@needs_chromium
def test_on_paper_no_page_has_a_link_over_its_text(site: pathlib.Path) -> None:
    hidden = "getComputedStyle(document.querySelector('.skip-to-content')).display"
    with browser.opened() as tab:
        for printed in (True, False):
            tab.open(site / "index.html", 760, printed=printed)
            assert (tab.evaluate(hidden) == "none") is printed


#: The tables that are cut, and the words of code on two lines, but for those of last columns.
DIVIDED = """[...document.querySelectorAll(".table-wrapper, td:not(:last-child) code .pre")]
    .filter(item => item.matches("code *") ? item.getClientRects().length > 1
        : item.scrollWidth > item.clientWidth + 1).map(item => item.innerText)"""


@needs_chromium
def test_on_paper_no_command_and_no_table_of_a_command_is_cut(site: pathlib.Path) -> None:
    cut = """[...document.querySelectorAll("pre")]
        .filter(item => item.scrollWidth > item.clientWidth).map(item => item.innerText)"""
    with browser.opened() as tab:
        tab.open(site / "user" / "moving" / "drain.html", 700, printed=True)
        assert tab.evaluate(cut) == []
        for width, printed in ((690, True), (1280, False)):
            tab.open(site / "user/reference/nova-rules.html", width, printed=printed)
            assert tab.evaluate(DIVIDED) == []
        tab.open(site / "user" / "moving" / "drain.html", PHONE)
        assert tab.evaluate(cut)
        shadow = "getComputedStyle(document.querySelector('pre')).backgroundImage"
        assert "linear-gradient" in tab.evaluate(shadow)


def test_each_program_has_a_man_page(tmp_path: pathlib.Path) -> None:
    pages = build("man", tmp_path)
    for name in ("openstack-placement.1", "osc-placement-server.1"):
        text = (pages / name).read_text("utf-8")
        assert "SYNOPSIS" in text.upper() or "OPTIONS" in text.upper()
        assert 50 < len(text.splitlines()) < 1000
        # The wheel installs this copy.
        assert (DOCS.parent / "man" / name).read_text("utf-8") == text


@pytest.mark.parametrize("name", sorted(tables.tables()))
def test_a_generated_table_is_that_of_the_code(name: str) -> None:
    assert (tables.FOLDER / name).read_text() == tables.tables()[name]
