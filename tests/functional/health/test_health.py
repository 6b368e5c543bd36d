# SPDX-License-Identifier: Apache-2.0
"""``placement health show`` on every target, with recorded responses of a real nova."""

from __future__ import annotations

import collections
import pathlib
from typing import Any

import pytest

from tests.support.peer import fixtures, shell

pytestmark = pytest.mark.usefixtures("sample")

RECORDED = ("--os-nova-recording", "12-hosts")


def rows(openstack: shell.OpenStack, command: str, *arguments: str) -> list[dict[str, Any]]:
    return openstack.rows(command, *RECORDED, *arguments, code=3)


def test_health_counts_what_the_audits_list(openstack: shell.OpenStack) -> None:
    health = rows(openstack, "placement health show")
    counts = {row["code"]: row["count"] for row in health if row["count"]}
    subjects: dict[str, set[str]] = collections.defaultdict(set)
    for command in ("placement allocation audit", "placement provider audit"):
        for row in rows(openstack, command, "--strict"):
            if row["code"] == "not-checked":
                continue
            subjects[row["code"]].add(row["uuid"] or row["name"])
    for row in rows(openstack, "placement flavor audit"):
        if row["code"] not in ("ok", "unknown"):
            subjects[f"flavor-{row['code']}"].add(row["id"])
    open_parts = [row for row in health if row["severity"] == "not checked"]
    assert ("providers", None) in {(row["code"], row["count"]) for row in open_parts}
    assert all(row["first"] for row in open_parts)
    others = {code: counts.pop(code) for code in [*counts] if code not in subjects}
    assert counts == {code: len(uuids) for code, uuids in subjects.items()}
    assert others == {
        # 11 and 7 are planned; 3 each are refused.
        "missing-member": 14,
        "allocation-ratio": 10,
        "consumer-without-owner": 1,
        "server-trait": 1,
    }


def test_known_problems_are_muted_and_a_snapshot_is_compared(
    openstack: shell.OpenStack, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "before.sqlite"
    saved = openstack.run("placement snapshot save", str(path), "--with-nova", *RECORDED)
    assert saved.code == 0, saved
    openstack.run("placement aggregate mirror", *RECORDED, "--allow", "recorded-nova")
    mutes = tmp_path / "mutes"
    mutes.write_text("# known\nmissing\nused-up=2000-01-01 # over\n")
    shown = rows(openstack, "placement health show", "--since", str(path), "--mute", f"@{mutes}")
    by_code = {row["code"]: row for row in shown}
    assert by_code["missing"]["severity"] == "muted"
    assert len(by_code["missing-member"]["gone"]) == 11
    # What the mirror refuses stays.
    assert by_code["missing-member"]["count"] == 3
    changed = {row["code"]: row["since"] for row in shown if row["count"] and row["since"] != "="}
    assert changed == {"missing-member": "-11"}


@fixtures.ON_ONE_TARGET
def test_what_was_not_checked_fails_only_a_strict_run(openstack: shell.OpenStack) -> None:
    problems = [row["code"] for row in rows(openstack, "placement health show") if row["count"]]
    mutes = [word for code in sorted(set(problems)) for word in ("--mute", code)]
    for options, code in (((), 0), (("--strict",), 4)):
        outcome = openstack.run("placement health show", *RECORDED, *mutes, *options, "-f", "json")
        assert outcome.code == code, outcome
