# SPDX-License-Identifier: Apache-2.0
"""The commands in the documentation run, and print what the pages show."""

from __future__ import annotations

import configparser
import pathlib
import re
import shlex
import subprocess
import sys
import textwrap
from concurrent import futures

import pytest

from tests.support import commands, guide
from tests.support.peer import forked

PAGES = [
    page
    for page in (guide.README, *sorted(guide.DOCS.rglob("*.rst")))
    if next(guide.steps(page.read_text()), None)
]
#: A process can use the configuration of one openstack-placement only.
OFFLINE = guide.DOCS / "user" / "snapshot" / "offline.rst"

#: The tables that do not fit 80 columns: a hash is never divided.
TOO_WIDE = {
    "snapshots": {
        "openstack placement snapshot show monday.sqlite -c resource_providers -c trees"
        " -c consumers -c unchanged -c state_hash"
    }
}


@pytest.fixture
def terminal(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> guide.Terminal:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return guide.Terminal(tmp_path)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page != OFFLINE], ids=lambda page: page.stem
)
def test_a_page_shows_the_real_output(page: pathlib.Path, terminal: guide.Terminal) -> None:
    found = list(guide.differences(page, terminal))
    assert not found, "\n\n".join(found)
    assert {*terminal.too_wide} == TOO_WIDE.get(page.stem, set())


def test_the_page_about_openstack_placement_in_process_shows_the_real_output(
    tmp_path: pathlib.Path,
) -> None:
    with futures.ProcessPoolExecutor(1, mp_context=forked.context()) as executor:
        found = executor.submit(guide.differences_in_folder, OFFLINE, tmp_path).result()
    assert not found, "\n\n".join(found)


def test_the_tests_of_the_page_about_testing_pass(tmp_path: pathlib.Path) -> None:
    text = (guide.DOCS / "testing.rst").read_text()
    blocks = re.findall(r"^\.\. code-block:: python\n\n((?:    .*\n|\n)+)", text, re.M)
    assert len(blocks) == 9
    for number, block in enumerate(blocks):
        (tmp_path / f"test_{number}.py").write_text(textwrap.dedent(block))
    options = ["-p", "no:cacheprovider", "--strict-markers", "-W", "error"]
    # openstacksdk warns about its own parts when it is imported.
    options += ["-W", "ignore:Support for InfluxDB", "-W", "ignore::PendingDeprecationWarning"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_the_readme_starts_with_commands_that_need_no_cloud() -> None:
    lines = [step.command for step in guide.steps(guide.README.read_text())]
    assert lines[1:3] == [
        "pip install .",
        "osc-placement-server --database cloud.sqlite --load 12-hosts --exit",
    ]
    assert sum(command.startswith("openstack ") for command in lines) >= 2


def test_install_names_the_extras_of_the_package() -> None:
    extras = configparser.ConfigParser()
    extras.read(guide.README.parent / "setup.cfg")
    text = (guide.DOCS / "install.rst").read_text().partition("\nExtras\n")[2]
    named = re.findall(r"^``(\w+)``$", text, re.MULTILINE)
    assert named == list(extras["options.extras_require"])


def test_each_page_of_the_user_guide_names_its_sample() -> None:
    pages = [page for page in PAGES if guide.DOCS / "user" in page.parents]
    assert [page.stem for page in pages if "12-hosts" not in page.read_text()] == []


def test_the_pages_have_commands() -> None:
    shown = [step for page in PAGES for step in guide.steps(page.read_text())]
    assert len(shown) > 40


def test_a_page_shows_commands_with_and_without_output() -> None:
    text = (
        "::\n\n    $ openstack a \\\n        -b\n    +-+\n\n    | |\n\nText.\n\n    openstack c\n"
    )
    found = list(guide.steps(text))
    assert found == [
        guide.Step("openstack a -b", ["+-+", "", "| |"], (4, 7)),
        guide.Step("openstack c", None, (11, 11)),
    ]


@pytest.mark.parametrize(
    ("shown", "same"),
    [(["a", "b"], True), (["a", "..."], True), (["...", "b"], True), (["a"], False)],
)
def test_dots_match_any_lines(shown: list[str], same: bool) -> None:
    assert guide.matches(shown, ["a", "b"]) == same


def test_how_do_i_names_at_least_thirty_problems_with_commands_that_parse() -> None:
    text = (guide.DOCS / "start" / "how-do-i.rst").read_text()
    commands_alone = (step.command.partition(" | ")[0] for step in guide.steps(text))
    lines = [shlex.split(line)[1:] for line in commands_alone if line != "openstack complete"]
    assert len(lines) >= 30
    names = {tuple(commands.command_name(entry).split()): entry for entry in commands.PRESENT}
    for words in lines:
        name = max(
            (name for name in names if tuple(words[: len(name)]) == name), key=len, default=()
        )
        assert name, words
        commands.parser_of(names[name]).parse_args(words[len(name) :])
