"""Every command line of the user guide runs, page by page, on the 12-host cloud."""

from __future__ import annotations

import pathlib
import re
import shlex

import pytest

from tests.functional.test_batch import AGGREGATE
from tests.support.peer import process, shell, target as targets

PAGES = sorted((process.ROOT / "doc" / "source" / "user").glob("*.rst"))

#: Commands that ask nova need one, and a reshape the file that says what moves.
OTHERS = tuple(
    f"openstack {words} "
    for words in (
        "flavor",
        "aggregate",
        "placement aggregate",
        "placement migration",
        "placement reshape",
    )
)

#: Those that are given the sample's answers of nova instead.
BESIDE_NOVA = "openstack placement allocation "

#: What a line of the guide may end with: done, changes found, all of them repaired, a limit
#: reached, some refused.
FINE = {0, 3, 4, 5, 6}


def lines(page: pathlib.Path) -> list[str]:
    """The commands of a page's literal blocks, each on one line."""
    text = page.read_text().replace("\\\n", " ")
    found = re.findall(r"^ {4}(openstack .*)$", text, re.MULTILINE)
    return [line for line in found if not line.startswith(OTHERS)]


@pytest.fixture
def target(tmp_path: pathlib.Path) -> targets.Target:
    cloud = targets.OnFile(tmp_path / "cloud.sqlite")
    cloud.load("12-hosts")
    return cloud


@pytest.mark.parametrize(
    "page", [page for page in PAGES if lines(page)], ids=lambda page: page.stem
)
def test_what_the_user_guide_says_can_be_done(
    page: pathlib.Path, openstack: shell.OpenStack
) -> None:
    devices = re.search(r"^ {4}(\{.*\})$", page.read_text(), re.MULTILINE)
    pathlib.Path("devices.json").write_text(devices[1] if devices else "{}")
    for line in lines(page):
        if line.startswith(BESIDE_NOVA):
            line = f"{line} --nova-answers 12-hosts"
        line, _, file = re.sub(r"<aggregate>|\bUUID\b", AGGREGATE, line).partition(" > ")
        outcome = openstack.run("", *shlex.split(line)[1:])
        assert outcome.code in FINE, f"{line}: {outcome}"
        assert outcome.stdout or outcome.stderr, line
        if file:
            pathlib.Path(file).write_text(outcome.stdout)


def test_the_recipes_are_read() -> None:
    assert len(lines(process.ROOT / "doc" / "source" / "user" / "recipes.rst")) > 12
