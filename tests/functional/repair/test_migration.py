# SPDX-License-Identifier: Apache-2.0
"""``placement migration``: online data migrations in batches."""

from __future__ import annotations

import collections
import json
import pathlib

import pytest

from tests.support.peer import fixtures, shell

pytestmark = pytest.mark.usefixtures("sample")

RUN = "placement migration run"

#: What there is to do on the sample cloud.
EXPECTED = {
    "mirror_host_aggregates": 11,
    "heal_allocations": 58,
    "complete_consumers": 7,
}
Counts = dict[str, tuple[int, int]]


def run(openstack: shell.OpenStack, *arguments: str) -> tuple[int, Counts, str]:
    """The exit code, ``{migration: (found, done)}``, and stderr."""
    recording = ("--os-nova-recording", "12-hosts", "--allow", "recorded-nova")
    ended = openstack.run(RUN, *recording, *arguments, "-f", "json")
    rows = json.loads(ended.stdout)
    counts = {row["migration"]: (row["found"], row["done"]) for row in rows}
    return ended.code, counts, ended.stderr


def test_limited_runs_continue_to_the_end(openstack: shell.OpenStack) -> None:
    ended = [run(openstack, "--max-count", "40")]
    while ended[-1][0] == 1 and len(ended) < 50:
        ended.append(run(openstack, "--max-count", "40"))
    done = [{name: count[1] for name, count in counts.items()} for _, counts, _ in ended]
    assert {name: sum(each[name] for each in done) for name in EXPECTED} == EXPECTED
    assert all(sum(each.values()) == 40 for each in done[:-2])
    assert (ended[-1][0], sum(done[-1].values())) == (0, 0)


def test_an_unlimited_run_makes_all_changes_and_reports_skipped_items(
    openstack: shell.OpenStack,
) -> None:
    code, counts, message = run(openstack)
    assert (code, counts) == (0, {name: (count, count) for name, count in EXPECTED.items()})
    assert "mirror_host_aggregates: 3 refused;" in message
    assert "placement plan undo" in message


def test_a_migration_that_cannot_be_undone_runs_only_when_it_is_named(
    openstack: shell.OpenStack,
) -> None:
    types = ("--migration", "set_consumer_types")
    _, counts, _ = run(openstack)
    assert "set_consumer_types" not in counts
    code, counts, _ = run(openstack, *types)
    assert (code, counts) == (0, {"set_consumer_types": (19, 19)})
    code, counts, _ = run(openstack, *types)
    assert (code, counts) == (0, {"set_consumer_types": (0, 0)})


def test_some_migrations_run_by_default_and_an_unknown_one_is_refused(
    openstack: shell.OpenStack,
) -> None:
    listed = openstack("placement migration list")
    assert [row["migration"] for row in listed if row["by_default"]] == list(EXPECTED)
    recording = ("--os-nova-recording", "12-hosts", "--allow", "recorded-nova")
    ended = openstack.run(RUN, *recording, "--migration", "nothing")
    assert ended.code == 127
    assert "unknown migration nothing: use mirror_host_aggregates, " in ended.stderr


@fixtures.ON_ONE_TARGET
def test_the_counts_are_those_of_the_commands_that_the_notes_name(
    openstack: shell.OpenStack,
) -> None:
    recording = ("--os-nova-recording", "12-hosts", "--dry-run")
    notes = openstack.run(RUN, *recording).stdout
    for name, command in (
        ("mirror_host_aggregates", "placement aggregate mirror"),
        ("heal_allocations", "placement allocation heal"),
    ):
        rows = openstack(command, *recording)
        statuses = collections.Counter(row["status"] for row in rows)
        (line,) = (line for line in notes.splitlines() if f"{command} --dry-run" in line)
        assert line.split("|")[2].strip() == name
        assert line.split("|")[3].strip().startswith(f"{statuses['refused']} refused;")


def test_the_next_run_continues_at_the_cursor(
    openstack: shell.OpenStack, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    first = run(openstack, "--max-count", "11")
    (cursor,) = (tmp_path / "osc-placement" / "migrations").iterdir()
    assert "mirror_host_aggregates" in cursor.read_text()
    second = run(openstack, "--max-count", "1")
    assert first[1]["mirror_host_aggregates"] == (11, 11)
    assert second[1]["mirror_host_aggregates"] == (0, 0)


def test_an_invalid_count_exits_with_127_or_2(
    openstack: shell.OpenStack,
) -> None:
    assert run(openstack, "--max-count", "0")[0] == 127
    assert openstack.run(RUN, "--max-count", "many").code == 2


def test_list_needs_no_cloud() -> None:
    ended = shell.run(["placement", "migration", "list", "-f", "json"])
    assert [row["migration"] for row in json.loads(ended.stdout)] == [
        *EXPECTED,
        "set_consumer_types",
        "add_display_head_traits",
        "remove_display_head_inventories",
    ]


def test_a_dry_run_shows_the_counts_and_changes_nothing(openstack: shell.OpenStack) -> None:
    for _ in range(2):
        code, counts, _ = run(openstack, "--dry-run")
        assert code == 0
        assert counts["mirror_host_aggregates"] == (EXPECTED["mirror_host_aggregates"], 0)
        assert not any(done for _, done in counts.values())


def test_display_heads_become_traits_without_nova(openstack: shell.OpenStack) -> None:
    gpu, both = "cmp-0004_gpu0", ("add_display_head_traits", "remove_display_head_inventories")
    heads = ("VGPU_DISPLAY_HEAD=32", "VGPU_DISPLAY_HEAD:max_unit=4")
    arguments = [word for text in heads for word in ("--resource", text)]
    openstack.do("resource provider inventory set", gpu, "--amend", *arguments)
    early = openstack.run(RUN, "--migration", both[1], "-f", "json")
    assert "1 refused; run add_display_head_traits before;" in early.stderr
    for name in both:
        assert openstack.rows(RUN, "--migration", name) == [
            {"migration": name, "found": 1, "done": 1}
        ]
    (trait,) = openstack("resource provider trait list", gpu)
    assert trait["name"] == "HW_GPU_MAX_DISPLAY_HEADS_4"
    classes = openstack("resource provider inventory list", gpu)
    assert [row["resource_class"] for row in classes] == ["VGPU"]
