# SPDX-License-Identifier: Apache-2.0
"""Whether nova-compute starts with a nova.conf: ``compute_start.py``, with the Python of a release.

It reads a JSON list of nova.conf texts, and prints a list of ``{"error": nova's error, empty for a
start, "traits": those of a TPM that libvirt's driver writes}``. The manager of nova-compute, its
database and what it reads of nova.conf are nova's own; Placement is a mock, and the driver is
nova's fake one. The host was started before under the name ``a``.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import pathlib
import sys
import tempfile
import uuid
from typing import Any
from unittest import mock

# The first import selects the backend of threads.
import nova.api.openstack
import nova.conf
from nova import context, objects, rpc
from nova.compute import manager
from nova.db import migration
from nova.db.main import api as database
from nova.pci import request
from nova.virt import fake, node
from nova.virt.libvirt import driver as libvirt

HOST = "a"
CONF = nova.conf.CONF
#: What each file has besides its own lines.
BASE = """\
[DEFAULT]
state_path = {folder}
transport_url = fake:///
host = a
[database]
connection = sqlite:///{folder}/cell.sqlite
[placement]
auth_type = none
"""


class StartDriver(fake.FakeDriver):
    """A host with one node, the same at each start."""

    def get_nodenames_by_uuid(self, refresh: bool = False) -> dict[str, str]:
        return {node.get_local_node_uuid(): HOST}

    def get_available_nodes(self, refresh: bool = False) -> list[str]:
        return [HOST]


def load(*files: pathlib.Path) -> None:
    CONF([], project="nova", default_config_files=list(map(str, files)))


def first_start(folder: pathlib.Path) -> objects.Service:
    """The database after a first start of nova-compute."""
    objects.register_all()
    database.configure(CONF)
    rpc.init(CONF)
    migration.db_sync(database="main")
    admin = context.get_admin_context()
    service = objects.Service(admin, host=HOST, binary="nova-compute", topic="compute")
    service.create()
    identity = str(uuid.uuid4())
    (folder / "compute_id").write_text(identity)
    empty = dict.fromkeys(("vcpus_used", "memory_mb_used", "local_gb_used"), 0)
    objects.ComputeNode(
        admin,
        host=HOST,
        hypervisor_hostname=HOST,
        uuid=identity,
        service_id=service.id,
        **{"vcpus": 1, "memory_mb": 1, "local_gb": 1, "cpu_info": "{}", **empty},
        hypervisor_type="QEMU",
        hypervisor_version=6002000,
    ).create()
    return service


def start(service: objects.Service) -> str:
    """Nova's error, of its own start or of the log of all options that each service writes."""
    # Nova reads the aliases once.
    for function in vars(request).values():
        getattr(function, "cache_clear", lambda: None)()
    try:
        CONF.log_opt_values(logging.getLogger("nova"), logging.DEBUG)
        with mock.patch("nova.scheduler.client.report.SchedulerReportClient"):
            compute = manager.ComputeManager()
            compute.init_host(service if CONF.host == HOST else None)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - nova's own, of any kind
        return f"{type(error).__name__}: {error}"
    return ""


def tpm_traits() -> list[str]:
    """The traits of a TPM that libvirt's driver writes with these options."""
    try:
        traits = libvirt.LibvirtDriver._get_tpm_traits(mock.MagicMock())
    except Exception:  # noqa: BLE001 - a refused option
        return []
    return sorted(name for name, is_there in traits.items() if is_there)


def main() -> None:
    folder = pathlib.Path(tempfile.mkdtemp())
    base, own = folder / "base.conf", folder / "nova.conf"
    base.write_text(BASE.format(folder=folder))
    load(base)
    logging.disable(logging.CRITICAL)
    service = first_start(folder)
    sys.modules["nova.virt.start"] = sys.modules["__main__"]
    answers: list[Any] = []
    for text in json.load(sys.stdin):
        own.write_text(text)
        load(base, own)
        with contextlib.redirect_stdout(io.StringIO()):
            answers.append({"error": start(service), "traits": tpm_traits()})
    json.dump(answers, sys.stdout)


main()
