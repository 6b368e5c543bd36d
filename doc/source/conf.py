# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration."""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import pathlib

import cliff.sphinxext
import dulwich.errors
import reno.config
import reno.formatter
import reno.loader
from dulwich import repo
from sphinx.application import Sphinx

from osc_placement import microversion

project = "osc-placement"
release = importlib.metadata.version("osc-placement")
version = release
copyright = "the contributors of this repository and OpenStack contributors"  # noqa: A001

extensions = ["cliff.sphinxext"]
autoprogram_cliff_application = "openstack"

#: The microversions of the project, in the text of all pages: ``|microversions|``.
rst_prolog = f".. |microversions| replace:: {microversion.MINIMUM} to {microversion.MAXIMUM}\n"

root_doc = "index"
exclude_patterns: list[str] = []
nitpicky = True
# Smart quotes would print "--dry-run" with a dash that no shell accepts.
smartquotes = False
highlight_language = "console"


RELEASE_NOTES = "about/release-notes"
NOTES_WITHOUT_GIT = """
This copy was built from an archive without git, whose history is the order of the notes. Read the
files, or build the documentation in a clone.
"""


def release_notes() -> str:
    """The text of all release notes, as reno prints them; a hint where there is no git history."""
    root = pathlib.Path(__file__).resolve().parents[2]
    logging.getLogger("reno").setLevel(logging.WARNING)
    try:
        repo.Repo(str(root)).close()
    except dulwich.errors.NotGitRepository:
        return NOTES_WITHOUT_GIT
    conf = reno.config.Config(str(root))
    with reno.loader.Loader(conf) as notes:
        text = reno.formatter.format_report(notes, conf, notes.versions, show_source=False)
    # The name of what comes before the first tag in reno.
    title = f"{release}, not yet released"
    return str(text).replace("\n0.0.0\n=====", f"\n{title}\n{'=' * len(title)}")


def add_release_notes(_app: Sphinx, docname: str, source: list[str]) -> None:
    if docname == RELEASE_NOTES:
        source[0] += release_notes()


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_release_notes)


# The reasons for this theme are in contributor/documentation.rst.
html_theme = "furo"
html_title = f"osc-placement {release}"
html_theme_options = {"navigation_with_keys": True}
templates_path = ["_templates"]
html_static_path = ["_static"]
# Without one, every browser asks for /favicon.ico and reports that it is missing.
html_favicon = "_static/icon.svg"
html_css_files = ["pages.css"]
html_copy_source = False
html_show_sourcelink = False

# doc/man has these, for the wheel: the date of a build would differ each day.
today = release
man_pages = [
    (
        "cli/openstack-placement",
        "openstack-placement",
        "Placement commands of openstack",
        "",
        1,
    ),
    ("server/index", "osc-placement-server", "reference server for Placement", "", 1),
]

_format_usage = cliff.sphinxext._format_usage


def format_usage(parser: argparse.ArgumentParser) -> list[str]:
    """The synopsis of a command, with each metavar in one piece.

    cliff divides the metavar of a required option: ``--resource <class>`` and ``=<value>``.
    """
    lines: list[str] = []
    for line in _format_usage(parser):
        if lines and line.lstrip().startswith((":", "=", ",")):
            lines[-1] += line.strip()
        else:
            lines.append(line)
    return lines


cliff.sphinxext._format_usage = format_usage
