# SPDX-License-Identifier: Apache-2.0
"""Checks the statements of the documentation about nova-manage on the seeded lab."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from lab import database, nova_manage, place
from lab.nova_manage import Audited, Healed

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

#: nova-manage does not read the image.
PINNED_BY_IMAGE = "rs-pinned-image"


@pytest.fixture(scope="module")
def seed(seeded_lab: place.Place) -> Any:
    return json.loads(seeded_lab.path("seed.json").read_text())


@pytest.fixture(scope="module")
def audited(seeded_lab: place.Place) -> Audited:
    return nova_manage.audit(seeded_lab)


def test_server_pinned_by_its_image_gets_vcpu(healed: dict[str, Healed]) -> None:
    (resources,) = healed[PINNED_BY_IMAGE].allocations.values()
    assert "VCPU" in resources
    assert "PCPU" not in resources


def test_stops_at_every_server_seeded_to_stop_it(healed: dict[str, Healed]) -> None:
    continues = {nova_manage.HEALED, nova_manage.NOTHING}
    stops = {
        name: outcome.code for name, outcome in healed.items() if outcome.code not in continues
    }
    assert stops == {
        "al-nested": nova_manage.NOT_SUPPORTED,
        "al-nested-placeholder": nova_manage.NOT_SUPPORTED,
        "po-two": nova_manage.FAILED,
        "st-hidden": nova_manage.NO_CELL,
        "st-unmapped": nova_manage.NO_CELL,
        "xx-cyborg": nova_manage.NOT_SUPPORTED,
        "xx-granular": nova_manage.FAILED,
        "xx-nocapacity": nova_manage.FAILED,
        "xx-noinventory": nova_manage.FAILED,
        "xx-nonode": nova_manage.NO_NODE,
        "xx-noprovider": nova_manage.FAILED,
        "xx-sev": nova_manage.CRASHED,
        "xx-shared": nova_manage.FAILED,
        "xx-unmapped": nova_manage.FAILED,
        "xx-vgpu": nova_manage.NOT_SUPPORTED,
    }
    assert not any(healed[name].changed for name in stops)


def test_heals_despite_queued_migration(healed: dict[str, Healed]) -> None:
    assert healed["mg-pending"].code == nova_manage.HEALED
    assert healed["mg-resized-old"].code == nova_manage.HEALED


def test_wrong_allocations_count_as_up_to_date(healed: dict[str, Healed]) -> None:
    for name in ("al-wronghost", "al-wrongsize", "al-double", "al-custom-only", "mg-live-failed"):
        assert healed[name].code == nova_manage.NOTHING
        assert "up-to-date" in healed[name].reason


def test_audit_reports_right_servers_as_orphaned_and_misses_some(
    seed: Any, audited: Audited
) -> None:
    kinds = ("servers", "consumers")
    objects = {each["uuid"]: (name, each) for kind in kinds for name, each in seed[kind].items()}
    names = {objects[uuid][0] for uuid, _ in audited.findings}
    healthy = {objects[uuid][0] for uuid, _ in audited.findings if not objects[uuid][1]["audit"]}
    assert audited.code == 3
    assert healthy == {
        "al-shared",
        "al-shared-only",
        "mg-evacuated",
        "mg-evacuating",
        "mg-live-both",
        "mg-live-new",
        "mg-resizing-new",
    }
    orphaned = {name for name, fields in seed["consumers"].items() if fields["audit"] == "orphaned"}
    assert orphaned - names == {"ironic", "typed"}


@pytest.mark.parametrize(
    ("name", "code"), [("rs-swap", nova_manage.HEALED), ("xx-vgpu", nova_manage.NOT_SUPPORTED)]
)
def test_commands_in_one_process_give_the_same_result(
    seeded_lab: place.Place, seed: Any, healed: dict[str, Healed], name: str, code: int
) -> None:
    config = ("--config-dir", str(seeded_lab.path("etc", "nova")))
    arguments = ("placement", "heal_allocations", "--verbose", "--instance")
    completed = subprocess.run(
        [seeded_lab.program("nova-manage"), *config, *arguments, seed["servers"][name]["uuid"]],
        env=dict(seeded_lab.environment()),
        capture_output=True,
        text=True,
        timeout=120,
    )
    database.reset(seeded_lab, database.SEEDED)
    assert completed.returncode == healed[name].code == code
    assert completed.stdout.strip() == healed[name].output
