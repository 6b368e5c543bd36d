# SPDX-License-Identifier: Apache-2.0
"""Minimum versions are documented, and constraints.txt agrees with setup.cfg."""

from __future__ import annotations

import configparser
import pathlib
import re

from packaging import requirements, utils, version

ROOT = pathlib.Path(__file__).parents[1]
ROW = re.compile(r"^(\w+) +([0-9.]+) +CVE-", re.MULTILINE)


def declared() -> dict[str, requirements.Requirement]:
    """The requirements of setup.cfg, with those of all extras, by normalized name."""
    config = configparser.ConfigParser(delimiters=("=",))
    config.read(ROOT / "setup.cfg")
    texts = [config["options"]["install_requires"], *config["options.extras_require"].values()]
    found = [requirements.Requirement(line) for text in texts for line in text.split("\n") if line]
    return {utils.canonicalize_name(item.name): item for item in found}


def constraints() -> dict[str, version.Version]:
    """The versions of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pairs = (line.split("==") for line in lines)
    return {utils.canonicalize_name(name): version.Version(text) for name, text in pairs}


def test_the_minimum_versions_are_those_of_the_documentation() -> None:
    page = (ROOT / "doc" / "source" / "install.rst").read_text("utf-8")
    known, rows = declared(), ROW.findall(page)
    assert len(rows) == 7
    for name, minimum in rows:
        specifier = known[utils.canonicalize_name(name)].specifier
        assert f">={minimum}" in map(str, specifier)


def test_constraints_have_an_allowed_version_of_every_requirement() -> None:
    installed = constraints()
    for name, requirement in declared().items():
        assert requirement.specifier.contains(installed[name])
