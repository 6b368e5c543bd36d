# SPDX-License-Identifier: Apache-2.0
"""Two regions behind one keystone: doc/source/start/regions-and-containers.rst.

Both have placement and nova of their own. The second region is a copy of the seeded one at other
addresses, whose providers have other UUIDs, and a lower allocation ratio.
"""

from __future__ import annotations

import json
import pathlib
import re
import shutil
from collections.abc import Iterator

import pytest

from lab import database, identity, place, process
from lab.tests import conftest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

EAST, WEST = place.REGION, "RegionWest"
SERVICES = ("placement", "nova")
#: The distance of the ports of the second region.
FURTHER = 10
PAGE = place.ROOT / "doc" / "source" / "start" / "regions-and-containers.rst"


@pytest.fixture(scope="module")
def west(seeded_lab: place.Place) -> Iterator[place.Place]:
    """The services of the second region, in the catalog of the first one's keystone."""
    made = place.Place(seeded_lab.path("west"), seeded_lab.first_port + FURTHER)
    shutil.rmtree(made.folder, ignore_errors=True)
    database.save(seeded_lab, WEST, *SERVICES)
    shutil.copytree(seeded_lab.path("saved", WEST), made.path("db"))
    made.path("venv").symlink_to(seeded_lab.path("venv"))
    for service in SERVICES:
        _configure(seeded_lab, made, service)
    _rename(seeded_lab, made)
    keystone = identity.Keystone(seeded_lab)
    endpoints = _fill_catalog(keystone, seeded_lab, made)
    try:
        process.start(made, SERVICES)
        yield made
    finally:
        process.stop(made, SERVICES)
        for endpoint in endpoints:
            keystone.delete(f"/endpoints/{endpoint}")
        keystone.delete(f"/regions/{WEST}")


def _configure(lab: place.Place, west: place.Place, service: str) -> None:
    shutil.copytree(lab.path("etc", service), west.path("etc", service))
    (conf,) = west.path("etc", service).glob("*.conf")
    text = conf.read_text().replace(f"{lab.folder}/", f"{west.folder}/")
    conf.write_text(text.replace(f"region_name = {EAST}", f"region_name = {WEST}"))


def _rename(lab: place.Place, west: place.Place) -> None:
    """Give the cell its database, and the hosts other UUIDs."""
    other = "substr(uuid, 1, 24) || 'eeeeeeeeeeee'"
    for name, statement in (
        ("nova_api", "UPDATE cell_mappings SET database_connection ="
         f" replace(database_connection, '{lab.folder}/', '{west.folder}/')"),
        ("nova_cell1", f"UPDATE compute_nodes SET uuid = {other}"),
        ("placement", f"UPDATE resource_providers SET uuid = {other}"),
    ):  # fmt: skip
        with database.transaction(west, name) as connection:
            connection.execute(statement)


def _fill_catalog(keystone: identity.Keystone, lab: place.Place, west: place.Place) -> list[str]:
    """Each endpoint of the first region also in the second one."""
    keystone.post("/regions", "region", id=WEST)
    listed = keystone.get(f"/endpoints?region_id={EAST}")["endpoints"]
    moved = {str(lab.port(name)): str(west.port(name)) for name in SERVICES}
    return [
        keystone.post(
            "/endpoints",
            "endpoint",
            service_id=item["service_id"],
            interface=item["interface"],
            url=re.sub(r"(?<=:)\d+", lambda port: moved.get(port[0], port[0]), item["url"]),
            region_id=WEST,
        )["id"]
        for item in listed
    ]


@pytest.fixture
def openstack(
    seeded_lab: place.Place, west: place.Place, tmp_path: pathlib.Path
) -> conftest.OpenStack:
    """With a clouds.yaml that names both regions, the first one as the default."""
    made = conftest.OpenStack(seeded_lab, tmp_path, "lab")
    text, line = made.clouds.read_text(), f"region_name: {EAST}"
    made.clouds = tmp_path / "clouds.yaml"
    made.clouds.write_text(text.replace(line, f"regions: [{EAST}, {WEST}]"))
    return made


def test_a_cloud_with_one_region_name_knows_no_other_region(
    seeded_lab: place.Place, tmp_path: pathlib.Path
) -> None:
    one = conftest.OpenStack(seeded_lab, tmp_path, "lab")
    refused = one.refused(f"--os-region-name {WEST} placement health show")
    assert f"Region {WEST} is not a valid region name" in refused


def test_the_region_selects_the_placement_and_each_summary_names_it(
    openstack: conftest.OpenStack, seeded_lab: place.Place, west: place.Place
) -> None:
    amend = "resource provider inventory amend --all --resource VCPU:allocation_ratio=2"
    ended = openstack.run(f"--os-region-name {WEST} {amend}")
    assert f"On {west.url('placement')} (cloud lab, region {WEST}): " in ended.stderr
    ratios = {
        region: openstack(
            f"--os-region-name {region} resource provider inventory show"
            " cmp-0001.lab.example.org VCPU"
        )["allocation_ratio"]
        for region in (EAST, WEST)
    }
    assert ratios == {EAST: 4.0, WEST: 2.0}
    ended = openstack.run("placement health show")
    assert f"On {seeded_lab.url('placement')} (cloud lab, region {EAST})" in ended.stderr


def test_the_loop_of_the_page_compares_the_capacity_of_two_regions(
    openstack: conftest.OpenStack,
) -> None:
    text = PAGE.read_text()
    (loop,) = re.findall(r"::\n\n(    \$ for region.*?)\n\n", text, flags=re.DOTALL)
    loop = loop.replace("    $ ", "").replace("east west", f"{EAST} {WEST}")
    loop = loop.replace("east.json west.json", f"{EAST}.json {WEST}.json")
    ended = openstack.shell(loop)
    east, west = json.loads(ended.stdout)
    assert east["fits"] > west["fits"] > 0, ended


def test_a_diff_of_two_regions_compares_by_name(openstack: conftest.OpenStack) -> None:
    for region in (EAST, WEST):
        save = f"--os-region-name {region} placement snapshot save {region}.sqlite --with-nova"
        assert openstack.run(save).returncode == 0
    ended = openstack.run(f"placement snapshot diff {EAST}.sqlite {WEST}.sqlite -f json")
    rows = json.loads(ended.stdout)
    assert "These are two clouds: providers are compared by name" in ended.stderr, ended.stderr
    assert {row["change"] for row in rows} == {"changed"}, rows


#: What kolla-ansible writes into admin-openrc.sh, all with "export OS_" before it.
OPENRC = """\
PROJECT_DOMAIN_NAME='Default' USER_DOMAIN_NAME='Default' PROJECT_NAME='admin' TENANT_NAME='admin'
USERNAME='admin' PASSWORD='{password}' AUTH_URL='{keystone}' INTERFACE='internal'
ENDPOINT_TYPE='internalURL' IDENTITY_API_VERSION='3' REGION_NAME='{region}' AUTH_PLUGIN='password'
"""


@pytest.mark.parametrize("options", ["", "--os-interface public "])
def test_admin_openrc_of_kolla_and_its_nova_conf_are_enough(
    openstack: conftest.OpenStack, seeded_lab: place.Place, west: place.Place, options: str
) -> None:
    facts = {"password": place.PASSWORD, "keystone": seeded_lab.url("keystone"), "region": WEST}
    openrc = "".join(f"export OS_{word}\n" for word in OPENRC.format(**facts).split())
    openstack.folder.joinpath("admin-openrc.sh").write_text(openrc)
    show = "placement capacity show --flavor m1.large --nova-conf nova.conf"
    shutil.copy(seeded_lab.path("etc", "nova", "nova.conf"), openstack.folder)
    ended = openstack.shell(
        "unset OS_CLOUD OS_CLIENT_CONFIG_FILE; source admin-openrc.sh;"
        f" openstack {options}placement status show -f value -c target; openstack {options}{show}"
    )
    # 4: what some filters of this nova.conf decide is not known.
    assert ended.returncode in {0, 4}, ended
    assert west.url("placement") in ended.stdout.splitlines()[0], ended
    assert "nova.conf is not given" not in ended.stderr
