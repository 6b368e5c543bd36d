"""What is said of nova-manage in the documentation is so, on the seed."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from osc_placement.nova import flavor
from tests.support import nova_manage
from tests.support.lab import database, place
from tests.support.nova_manage import Audited, Healed

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

#: The image is not looked at.
PINNED_BY_IMAGE = "rs-pinned-image"


@pytest.fixture(scope="module")
def seed(seeded_lab: place.Place) -> Any:
    return json.loads(seeded_lab.path("seed.json").read_text())


@pytest.fixture(scope="module")
def healed(seeded_lab: place.Place, seed: Any) -> dict[str, Healed]:
    """``{server's name: what came of it}``"""
    names = {server["uuid"]: name for name, server in seed["servers"].items()}
    told = nova_manage.heal_each(seeded_lab, names)
    return {names[uuid]: outcome for uuid, outcome in told.items()}


@pytest.fixture(scope="module")
def audited(seeded_lab: place.Place) -> Audited:
    return nova_manage.audit(seeded_lab)


def test_each_healed_server_has_what_its_flavor_says_and_its_owner(
    seed: Any, healed: dict[str, Healed]
) -> None:
    for name, outcome in healed.items():
        if outcome.code != nova_manage.HEALED or name == PINNED_BY_IMAGE:
            continue
        server = seed["servers"][name]
        asked = flavor.request_of(
            flavor.Flavor(**seed["flavors"][server["flavor"]]),
            server["image_properties"],
            booted_from_volume=server["volume"],
        ).total()
        root = seed["hosts"][server["host"]][server["node"]]["uuid"]
        assert outcome.allocations[root] == asked, name
        assert (outcome.project_id, outcome.user_id) == (server["project"], server["user"])


def test_a_server_that_its_image_pins_gets_shared_cpus(healed: dict[str, Healed]) -> None:
    (resources,) = healed[PINNED_BY_IMAGE].allocations.values()
    assert "VCPU" in resources
    assert "PCPU" not in resources


def test_it_stops_at_each_server_that_is_seeded_to_stop_it(healed: dict[str, Healed]) -> None:
    goes_on = {nova_manage.HEALED, nova_manage.NOTHING}
    stops = {name: outcome.code for name, outcome in healed.items() if outcome.code not in goes_on}
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


def test_a_queued_migration_does_not_keep_it_from_healing(healed: dict[str, Healed]) -> None:
    assert healed["mg-pending"].code == nova_manage.HEALED
    assert healed["mg-resized-old"].code == nova_manage.HEALED


def test_what_is_allocated_wrongly_is_up_to_date_for_it(healed: dict[str, Healed]) -> None:
    for name in ("al-wronghost", "al-wrongsize", "al-double", "al-custom-only", "mg-live-failed"):
        assert healed[name].code == nova_manage.NOTHING
        assert "up-to-date" in healed[name].reason


def test_its_audit_takes_healthy_servers_for_orphans_and_misses_some(
    seed: Any, audited: Audited
) -> None:
    kinds = ("servers", "consumers")
    known = {each["uuid"]: (name, each) for kind in kinds for name, each in seed[kind].items()}
    found = {known[uuid][0] for uuid, _ in audited.findings}
    healthy = {known[uuid][0] for uuid, _ in audited.findings if not known[uuid][1]["audit"]}
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
    orphaned = {name for name, each in seed["consumers"].items() if each["audit"] == "orphaned"}
    assert orphaned - found == {"ironic", "typed"}


@pytest.mark.parametrize(
    ("name", "code"), [("rs-swap", nova_manage.HEALED), ("xx-vgpu", nova_manage.NOT_SUPPORTED)]
)
def test_calling_its_commands_many_times_is_as_good_as_starting_it(
    seeded_lab: place.Place, seed: Any, healed: dict[str, Healed], name: str, code: int
) -> None:
    config = ("--config-dir", str(seeded_lab.path("etc", "nova")))
    words = ("placement", "heal_allocations", "--verbose", "--instance")
    ended = subprocess.run(
        [seeded_lab.program("nova-manage"), *config, *words, seed["servers"][name]["uuid"]],
        env=dict(seeded_lab.environment()),
        capture_output=True,
        text=True,
        timeout=120,
    )
    database.reset(seeded_lab, database.SEEDED)
    assert ended.returncode == healed[name].code == code
    assert ended.stdout.strip() == healed[name].said
