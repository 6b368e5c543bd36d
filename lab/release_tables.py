# SPDX-License-Identifier: Apache-2.0
"""The tables of osc_placement/scheduling/releases.json, from the installed releases of nova."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lab import install, place

PATH = place.ROOT / "osc_placement" / "scheduling" / "releases.json"
_SAME = ("version", "oldest", "os_traits", "qemu", "libvirt")


def facts(lab: place.Place) -> dict[int, dict[str, Any]]:
    """What each release says about itself. Requests: those of ``install.release_python``."""
    return {
        release: install.ask_release(lab, release, "release_facts.py")
        for release in sorted(install.NOVA_RELEASES)
    }


def tables(by_release: Mapping[int, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """``{release: its row}``; the traits are those that the releases before do not have."""
    rows = {}
    earlier: dict[str, set[str]] = {}
    for release, said in by_release.items():
        row = {name: said[name] for name in _SAME}
        for name in ("written", "required"):
            present = set(said[name])
            if gone := earlier.get(name, set()) - present:
                raise AssertionError(f"nova {release} has no more: {sorted(gone)}")
            row[name] = sorted(present - earlier.get(name, present))
            earlier[name] = present
        rows[str(release)] = row
    return rows


def text(rows: Mapping[str, Any]) -> str:
    """The file."""
    return json.dumps(rows, indent=1) + "\n"


def main() -> None:
    """Write the file."""
    PATH.write_text(text(tables(facts(place.find()))))
