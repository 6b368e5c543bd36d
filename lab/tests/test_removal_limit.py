# SPDX-License-Identifier: Apache-2.0
"""The limit of removals with a real nova that lists no servers, or no host aggregates."""

from __future__ import annotations

import pytest

from lab.database import transaction
from lab.tests import test_heal
from lab.tests.test_heal import Lab

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

AUDIT = "placement allocation audit"
MIRROR = "placement aggregate mirror"


lab = test_heal.lab


def execute(lab: Lab, database: str, statement: str) -> None:
    """Change a database of nova: its API cannot hide servers from an admin."""
    with transaction(lab.lab, database) as nova:
        nova.execute(statement)


def test_an_audit_deletes_nothing_where_nova_hides_the_servers(lab: Lab) -> None:
    # The list omits hidden servers; a request for one server needs its mapping.
    execute(lab, "nova_cell1", "UPDATE instances SET hidden = 1")
    execute(lab, "nova_api", "DELETE FROM instance_mappings")
    listed = lab.ask("nova", "GET", "/v2.1/servers?all_tenants=1")["servers"]
    assert [server["name"] for server in listed] == ["st-error-cell0"]
    before = lab.everything()
    problems = lab.rows(f"{AUDIT} --skip-port-allocations --repair", 6)
    many = [row for row in problems if row["status"] == "refused"]
    assert many
    assert all("--allow many to do it anyway" in row["reason"] for row in many)
    assert lab.everything() == before


def test_a_mirror_removes_nothing_where_nova_has_lost_the_host_aggregates(lab: Lab) -> None:
    assert lab.openstack.run(MIRROR).returncode in (0, 6)
    execute(lab, "nova_api", "DELETE FROM aggregate_hosts")
    before = lab.state()
    members = lab.rows(f"{MIRROR} --prune", 6)
    assert "many" in {row["code"] for row in members if row["status"] == "refused"}
    assert lab.state() == before
    lab.rows(f"{MIRROR} --prune --allow many")
    assert lab.state() != before
