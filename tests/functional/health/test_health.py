# SPDX-License-Identifier: Apache-2.0
"""``placement health show`` on every target, with recorded responses of a real nova."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from tests.support.peer import fixtures, shell

pytestmark = pytest.mark.usefixtures("sample")

RECORDED = ("--os-nova-recording", "12-hosts")


def rows(openstack: shell.OpenStack, command: str, *arguments: str) -> list[dict[str, Any]]:
    return openstack.rows(command, *RECORDED, *arguments, code=3)


#: ``{severity: {code: number}}``; test_each_area_has_the_problems_of_its_command has the audits'.
COUNTS = {
    "error": {
        "missing": 58,
        "missing-member": 14,
        "orphaned": 6,
        "flavor-no-host": 1,
        **dict.fromkeys(("wrong-host", "wrong-size"), 2),
        **dict.fromkeys(("doubled", "leaked-move"), 1),
        "missing-provider": 1,
    },
    "warning": {
        "unknown": 26,
        "allocation-ratio": 10,
        "incomplete": 7,
        **dict.fromkeys(("flavor-one-host", "server-trait"), 2),
        **dict.fromkeys(("consumer-without-owner", "wrong-owner"), 1),
    },
    "not checked": {"flavors": None, "providers": None},
    "ok": {"hosts": 0},
}


def test_health_counts_the_problems_of_all_areas(openstack: shell.OpenStack) -> None:
    counts: dict[str, dict[str, int | None]] = {}
    for row in rows(openstack, "placement health show"):
        assert row["first"]
        counts.setdefault(row["severity"], {})[row["code"]] = row["count"]
    assert counts == COUNTS


def test_known_problems_are_muted_and_a_snapshot_is_compared(
    openstack: shell.OpenStack, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "before.sqlite"
    saved = openstack.run("placement snapshot save", str(path), "--with-nova", *RECORDED)
    assert saved.code == 0, saved
    openstack.run("placement aggregate mirror", *RECORDED, "--allow", "recorded-nova")
    mutes = tmp_path / "mutes"
    mutes.write_text("# known\nmissing\nused-up=2000-01-01 # over\n")
    # With it, some flavors have no host in use, in both states.
    conf = tmp_path / "nova.conf"
    conf.write_text(
        "[filter_scheduler]\nenabled_filters = IsolatedHostsFilter\nisolated_hosts ="
        f" {','.join(f'cmp-{number:04}' for number in range(1, 12))}\n"
    )
    options = ("--since", str(path), "--mute", f"@{mutes}", "--nova-conf", str(conf))
    shown = rows(openstack, "placement health show", *options)
    by_code = {row["code"]: row for row in shown}
    assert by_code["missing"]["severity"] == "muted"
    assert by_code["flavor-out-of-service"]["since"] == "="
    assert len(by_code["missing-member"]["gone"]) == 11
    # What the mirror refuses stays.
    assert by_code["missing-member"]["count"] == 3
    changed = {row["code"]: row["since"] for row in shown if row["count"] and row["since"] != "="}
    assert changed == {"missing-member": "-11"}


@fixtures.ON_ONE_TARGET
def test_what_was_not_checked_fails_only_a_strict_run(openstack: shell.OpenStack) -> None:
    codes = sorted({**COUNTS["error"], **COUNTS["warning"]})
    mutes = [word for code in codes for word in ("--mute", code)]
    for options, code in (((), 0), (("--strict",), 4)):
        outcome = openstack.run("placement health show", *RECORDED, *mutes, *options, "-f", "json")
        assert outcome.code == code, outcome
