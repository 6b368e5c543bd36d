# SPDX-License-Identifier: Apache-2.0
"""What a package index and a container builder show and check: README, picture, Containerfile."""

from __future__ import annotations

import configparser
import html
import importlib.metadata
import io
import pathlib
import re
import runpy
import subprocess
import sys

import pytest
from readme_renderer import rst

ROOT = pathlib.Path(__file__).parents[1]


def visible(picture: str) -> list[str]:
    """The lines of text of an SVG picture."""
    return [html.unescape(text) for text in re.findall(r"<text[^>]*>(.*?)</text>", picture)]


def test_the_readme_renders_on_a_package_index() -> None:
    errors = io.StringIO()
    rendered = rst.render((ROOT / "README.rst").read_text(), stream=errors)
    assert errors.getvalue() == ""
    assert rendered is not None
    assert rendered.index("<h1") < rendered.index("<pre")


PICTURE = re.compile(r"^\.\. image:: (\S+)$", re.MULTILINE)


def test_a_checkout_shows_the_pictures_of_the_readme_and_a_package_index_only_text() -> None:
    relative = PICTURE.findall((ROOT / "README.rst").read_text())
    assert len(relative) == 2
    assert [name for name in relative if not (ROOT / name).is_file()] == []
    shown = subprocess.run(
        [sys.executable, "-W", "ignore", "setup.py", "-q", "--long-description"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert "Try it" in shown.stdout
    assert "image::" not in shown.stdout


#: What belongs to the OpenStack project, and so is no address of this package.
OF_OPENSTACK = re.compile(
    r"https?://(docs\.openstack\.org/(releasenotes/)?osc-placement|opendev\.org/openstack/osc-placement"
    r"|github\.com/openstack/osc-placement|bugs\.launchpad\.net/placement-osc-plugin)"
)


def test_no_address_claims_what_belongs_to_openstack_as_its_own() -> None:
    files = [
        ROOT / "README.rst",
        ROOT / "setup.cfg",
        ROOT / "CONTRIBUTING.rst",
        *ROOT.glob("osc_placement/**/*.py"),
        *ROOT.glob("osc_placement/**/*.html"),
        *ROOT.glob("doc/source/**/*.rst"),
    ]
    claims = {
        f"{path.name}: {line}"
        for path in files
        for text in path.read_text().split("\n\n")
        for line in text.splitlines()
        if OF_OPENSTACK.search(line) and "osc-placement==4.9.1" not in text
    }
    assert claims == set()
    metadata = importlib.metadata.metadata("osc-placement").json
    assert not [value for value in metadata.values() if OF_OPENSTACK.search(str(value))]


@pytest.mark.parametrize(
    "name",
    ["README.rst", "doc/source/about/support.rst", "osc_placement/v1/health/report.html"],
)
def test_the_readme_the_support_page_and_the_report_say_who_has_not_reviewed_it(name: str) -> None:
    text = " ".join((ROOT / name).read_text().split())
    assert re.search(
        r"superset of .*osc-placement.* that (the )?OpenStack (project )?has not reviewed", text
    )


def test_the_version_is_written_in_one_place() -> None:
    config = configparser.ConfigParser(delimiters=("=",))
    config.read(ROOT / "setup.cfg")
    version = config["metadata"]["version"]
    assert importlib.metadata.version("osc-placement") == version
    files = [
        *ROOT.glob("osc_placement/**/*.py"),
        *ROOT.glob("doc/source/**/*.rst"),
        ROOT / "README.rst",
    ]
    literal = re.compile(rf"(?<![\d.]){re.escape(version)}(?![\d.])")
    assert [path for path in files if literal.search(path.read_text())] == []


def test_the_check_of_packages_installs_every_extra() -> None:
    config = configparser.ConfigParser(delimiters=("=",))
    config.read(ROOT / "setup.cfg")
    probes = runpy.run_path(str(ROOT / "tools" / "package-check"))["PROBES"]
    assert set(probes) == {"", *config["options.extras_require"]}


def test_the_picture_of_the_terminal_shows_what_the_commands_print() -> None:
    tool = [sys.executable, str(ROOT / "tools" / "terminal-picture")]
    folder = str(pathlib.Path(sys.executable).parent)
    made = subprocess.run(
        tool, check=True, capture_output=True, text=True, env={"PATH": f"{folder}:/usr/bin:/bin"}
    )
    kept = (ROOT / "doc" / "source" / "start" / "pictures" / "terminal.svg").read_text()
    assert len(visible(kept)) > 20
    assert visible(made.stdout) == visible(kept)
    assert "@font-face" not in kept


def test_the_container_file_has_no_finding_of_hadolint() -> None:
    hadolint = pathlib.Path(sys.executable).with_name("hadolint")
    command = [hadolint, ROOT / "Containerfile"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
