# SPDX-License-Identifier: Apache-2.0
"""The hosts that nova's scheduler accepts for a new server, from nova's own classes.

Run this with the Python of a nova release: ``compute_filter.py < HOSTS.json``, a list of ``{uuid,
node, state}``: the UUID of a root provider of Placement, that of the compute node in nova, and the
state of its compute service, see ``tests.support.clouds.compute_services``. It needs no service.
It writes the hosts to two cells of a new database, asks nova's host manager about the providers as
the scheduler does after a candidates query, and the ComputeFilter about each host. It prints the
UUIDs of the accepted providers.
"""

from __future__ import annotations

import datetime
import json
import logging
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

# The first import selects the backend of threads.
import nova.api.openstack  # noqa: F401
from nova import config, context, objects
from nova.db import migration
from nova.db.api import api as api_database
from nova.db.main import api as main_database
from nova.objects import cell_mapping
from nova.scheduler import host_manager
from nova.scheduler.filters import compute_filter
from oslo_utils import timeutils

#: With nova's minute the first of many hosts are down before the last one is written.
DOWN_TIME = datetime.timedelta(days=1)
LONG_AGO = 2 * DOWN_TIME
CELL = "00000000-0000-4000-a000-{:012}"


def create_cells(folder: str) -> list[Any]:
    """Create the databases and the mappings of cell0, of a cell, and of a cell that is down."""
    config.CONF.set_override("service_down_time", int(DOWN_TIME.total_seconds()))
    config.CONF.set_override("connection", f"sqlite:///{folder}/api.sqlite", group="api_database")
    config.CONF.set_override("connection", f"sqlite:///{folder}/main.sqlite", group="database")
    main_database.configure(config.CONF)
    api_database.configure(config.CONF)
    migration.db_sync(database="api")
    migration.db_sync(database="main")
    admin = context.get_admin_context()
    places = (
        (cell_mapping.CellMapping.CELL0_UUID, f"sqlite:///{folder}/main.sqlite"),
        (CELL.format(1), f"sqlite:///{folder}/main.sqlite"),
        (CELL.format(2), f"sqlite:///{folder}/absent/down.sqlite"),
    )
    cells = []
    for uuid, place in places:
        made = objects.CellMapping(
            admin, uuid=uuid, name=uuid, transport_url="fake:/", database_connection=place
        )
        made.create()
        cells.append(made)
    return cells


def create_host(admin: Any, name: str, host: Mapping[str, str]) -> None:
    """Create the compute node and the compute service of a host."""
    state = host["state"]
    if state == "cell down":
        return
    if state != "no service":
        service = objects.Service(
            admin,
            host=name,
            binary="nova-compute",
            topic="compute",
            report_count=1,
            disabled="disabled" in state,
            forced_down="forced down" in state,
        )
        service.create()
        is_silent = state.endswith("down")
        service.last_seen_up = timeutils.utcnow() - (LONG_AGO if is_silent else LONG_AGO * 0)
        service.save()
    objects.ComputeNode(
        admin,
        uuid=host["node"],
        host=name,
        hypervisor_hostname=host["node"],
        vcpus=8,
        memory_mb=64,
        local_gb=64,
        vcpus_used=0,
        memory_mb_used=0,
        local_gb_used=0,
        free_ram_mb=64,
        free_disk_gb=64,
        current_workload=0,
        running_vms=0,
        disk_available_least=64,
        hypervisor_type="QEMU",
        hypervisor_version=1,
        cpu_info="{}",
        host_ip="127.0.0.1",
        stats={},
        supported_hv_specs=[],
        cpu_allocation_ratio=1.0,
        ram_allocation_ratio=1.0,
        disk_allocation_ratio=1.0,
    ).create()


def accepted(hosts: Sequence[Mapping[str, str]]) -> list[str]:
    """The UUIDs of the providers of hosts that nova's scheduler finds and the filter accepts."""
    with tempfile.TemporaryDirectory() as folder:
        cells = create_cells(folder)
        admin = context.get_admin_context()
        with context.target_cell(admin, cells[1]) as targeted:
            for number, host in enumerate(hosts):
                name = f"host-{number}"
                create_host(targeted, name, host)
                objects.HostMapping(
                    admin, host=name, cell_mapping=cells[2 if host["state"] == "cell down" else 1]
                ).create()
        manager = host_manager.HostManager()
        spec = objects.RequestSpec(admin)
        uuids = [host["uuid"] for host in hosts]
        states = manager.get_host_states_by_uuids(admin, uuids, spec)
        judge = compute_filter.ComputeFilter()
        return [state.uuid for state in states if judge.host_passes(state, spec)]


def main() -> None:
    config.parse_args(["compute_filter"], default_config_files=[])
    logging.disable(logging.CRITICAL)
    objects.register_all()
    json.dump(accepted(json.load(sys.stdin)), sys.stdout)


main()
