# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import datetime

import pytest

from osc_placement import errors
from osc_placement.nova import api, servers, values

UUID, OTHER = (f"00000000-0000-4000-8000-00000000000{number}" for number in range(2))
BARE = {
    "migration_type": None, "status": None, "source_compute": None, "source_node": None,
    "dest_compute": None, "dest_node": None, "updated_at": None, "created_at": None,
}  # fmt: skip


def listed(issued: str | None = None, **fields: str | None) -> list[values.Migration]:
    login = {api.LOGIN: {"token": {"issued_at": issued}}}
    recorded = {"GET /v2.1/os-migrations": {"migrations": [{**BARE, **fields}]}, **login}
    return servers.migrations(api.RecordedNova(recorded, "nova.json"))


def test_a_migration_without_type_status_hosts_and_times_is_one_with_empty_ones() -> None:
    assert listed(uuid=UUID, instance_uuid=OTHER) == [values.Migration(UUID, OTHER, "", "")]
    assert listed(uuid=UUID, instance_uuid=None) == [values.Migration(UUID, "", "", "")]


def test_a_migration_with_the_uuid_of_its_server_is_named() -> None:
    with pytest.raises(errors.PlacementError, match=f"migration {UUID} has the UUID of its server"):
        listed(uuid=UUID, instance_uuid=UUID)


@pytest.mark.parametrize("days", [0, 1])
@pytest.mark.parametrize(
    ("kind", "status", "age", "is_over"),
    [
        ("live-migration", "cancelled", 1, False),
        ("live-migration", "failed", 30, False),
        ("live-migration", "error", -30, False),
        ("live-migration", "cancelled", 61, True),
        ("live-migration", "completed", 1, True),
        ("live-migration", "running", 1, False),
        ("migration", "error", 1, True),
        # A time that nobody can read is not recent.
        ("live-migration", "error", None, True),
    ],
)
def test_a_live_migration_that_failed_just_now_is_not_over(
    kind: str, status: str, age: int | None, is_over: bool, days: int
) -> None:
    """Nova cleans up its target after it has set the status: by its clock, not by this machine's.

    A recording that was made ``days`` ago has the cloud of then.
    """
    now = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days)
    time = now - datetime.timedelta(seconds=age or 0)
    updated = "yesterday" if age is None else time.replace(tzinfo=None).isoformat()
    named = {"uuid": UUID, "instance_uuid": OTHER, "migration_type": kind}
    (migration,) = listed(now.isoformat(), **named, status=status, updated_at=updated)
    assert migration.is_over is is_over
