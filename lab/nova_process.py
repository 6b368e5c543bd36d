# SPDX-License-Identifier: Apache-2.0
"""Nova's API, conductor and scheduler in one process: nova's own classes, on new databases.

The programs of this folder that ask nova import this with the Python of a release of nova. A
request passes nova's real controllers, ``nova.compute.api.API`` and the conductor's tasks. What
they send to nova-compute is recorded; the answers of Placement, Neutron, Cinder and Glance come
from a ``Peers`` value.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import logging
import pathlib
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

# The first import selects the backend of threads.
import nova.api.openstack  # noqa: F401
import oslo_messaging
import webob
from nova import config, context, objects, policy, rpc
from nova.api.openstack import api_version_request, compute as compute_app
from nova.compute import api as compute_api
from nova.conductor import manager as conductor_manager
from nova.db import migration
from nova.db.api import api as api_database
from nova.db.main import api as main_database
from nova.image import glance
from nova.network import model as network_model, neutron
from nova.objects import cell_mapping
from nova.scheduler import manager as scheduler_manager
from nova.scheduler.client import report
from nova.volume import cinder
from oslo_db.sqlalchemy import engines
from oslo_utils import timeutils

#: With nova's minute a service is down before the last case of a long run.
DOWN_TIME = datetime.timedelta(days=1)
PROJECT = "acme"
_TABLES = {
    "api": (
        *("instance_mappings", "request_specs", "build_requests", "flavor_extra_specs"),
        *("flavor_projects", "flavors"),
    ),
    "main": (
        *("block_device_mapping", "instance_extra", "instance_info_caches", "migrations"),
        *("instance_system_metadata", "instance_metadata", "instance_faults", "share_mapping"),
        *("instance_actions_events", "instance_actions", "virtual_interfaces", "pci_devices"),
        *("instance_id_mappings", "tags", "console_auth_tokens", "instances"),
    ),
}
UUID = "00000000-0000-4000-{:04x}-{:012x}"
IMAGE = UUID.format(0xB000, 1)


@dataclasses.dataclass
class Peers:
    """What the other services answer, and what nova asked them."""

    ports: Sequence[Mapping[str, Any]] = ()
    image: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    #: The answer to the query string of GET /allocation_candidates.
    candidates: Callable[[str], Mapping[str, Any]] = lambda _: candidates({})
    allocations: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    #: The exception of the scheduler.
    no_host: Exception | None = None
    #: The query strings of GET /allocation_candidates.
    queries: list[str] = dataclasses.field(default_factory=list)
    #: ``(topic, method, arguments)`` of the messages that nova sent.
    messages: list[tuple[str, str, Mapping[str, Any]]] = dataclasses.field(default_factory=list)


def candidates(
    hosts: Mapping[str, Mapping[str, int]], groups: Sequence[str] = ("",)
) -> Mapping[str, Any]:
    """The answer of GET /allocation_candidates for ``{uuid of a host: {class: amount}}``.

    ``groups`` are the suffixes of the request; the host itself serves all of them.
    """
    return {
        "allocation_requests": [
            {
                "allocations": {uuid: {"resources": dict(amounts)}},
                "mappings": {group: [uuid] for group in groups},
            }
            for uuid, amounts in hosts.items()
        ],
        "provider_summaries": {
            uuid: {
                "resources": {name: {"capacity": 64, "used": 0} for name in amounts},
                "traits": [],
                "parent_provider_uuid": None,
                "root_provider_uuid": uuid,
            }
            for uuid, amounts in hosts.items()
        },
    }


class Placement:
    """The client of Placement that nova's report client uses."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def get(self, url: str, **_: Any) -> Any:
        path, _, query = url.partition("?")
        peers = self._process.peers
        if path == "/allocation_candidates":
            peers.queries.append(query)
            return _answer(peers.candidates(query))
        if path.startswith("/allocations/"):
            return _answer(
                {
                    "allocations": peers.allocations,
                    "project_id": PROJECT,
                    "user_id": "u",
                    "consumer_generation": 1,
                    "consumer_type": "INSTANCE",
                }
            )
        if path.startswith("/resource_providers/") and path.count("/") == 2:
            uuid = path.rpartition("/")[2]
            return _answer({"uuid": uuid, "name": uuid, "generation": 1})
        lists = {"resource_providers": [], "traits": [], "aggregates": [], "inventories": {}}
        return _answer({**lists, "resource_provider_generation": 1})

    def post(self, *_: Any, **__: Any) -> Any:
        return _answer({}, 204)

    put = delete = post


def _answer(body: Mapping[str, Any], code: int = 200) -> Any:
    answer = mock.Mock(status_code=code, text=json.dumps(body), headers={})
    answer.json = lambda: body
    answer.__bool__ = lambda _: code < 400
    return answer


def unexpected(method: Callable[..., Any], *words: Any, **arguments: Any) -> Any:
    """The result of a method of a nova service; raises what its RPC server would send back."""
    try:
        return method(*words, **arguments)
    except oslo_messaging.ExpectedException as error:
        raise error.exc_info[1] from None


class Client:
    """A client of nova's RPC: it calls the scheduler, and keeps every other message."""

    def __init__(self, process: Process, topic: str) -> None:
        self._process = process
        self._topic = topic

    def prepare(self, **_: Any) -> Client:
        return self

    def can_send_version(self, *_: Any, **__: Any) -> bool:
        return True

    def client(self, _: Any) -> Client:
        return self

    def call(self, admin: Any, method: str, **arguments: Any) -> Any:
        self._process.peers.messages.append((self._topic, method, arguments))
        if method == "select_destinations":
            arguments = {"request_spec": None, "filter_properties": None, **arguments}
            try:
                return unexpected(self._process.scheduler.select_destinations, admin, **arguments)
            except Exception as error:
                self._process.peers.no_host = error
                raise
        return mock.MagicMock()

    cast = call


class Process:
    """The databases, one cell with hosts, and the peers of one process."""

    def __init__(self) -> None:
        config.parse_args(["nova"], default_config_files=[])
        logging.disable(logging.CRITICAL)
        objects.register_all()
        self.peers = Peers()
        #: The compute node of each host.
        self.nodes: dict[str, Any] = {}
        self._replace_peers()
        self._temporary = tempfile.TemporaryDirectory()
        self._set_options(pathlib.Path(self._temporary.name))
        policy.reset()
        policy.init()
        self.admin = context.get_admin_context()
        self.operator = context.RequestContext(
            "u", PROJECT, is_admin=True, roles=["admin", "member", "reader"]
        )
        self.cells = list(self._create_cells())
        self.scheduler = scheduler_manager.SchedulerManager()
        self.conductor = conductor_manager.ComputeTaskManager()
        compute_api.load_cells()
        self._app = compute_app.APIRouterV21()

    def _set_options(self, folder: pathlib.Path) -> None:
        self.folder = folder
        options = {
            ("DEFAULT", "service_down_time"): int(DOWN_TIME.total_seconds()),
            ("DEFAULT", "state_path"): str(folder),
            ("api_database", "connection"): f"sqlite:///{folder}/api.sqlite",
            ("database", "connection"): f"sqlite:///{folder}/main.sqlite",
            ("database", "sqlite_synchronous"): False,
            ("api_database", "sqlite_synchronous"): False,
            ("oslo_concurrency", "lock_path"): str(folder),
            ("quota", "driver"): "nova.quota.NoopQuotaDriver",
        }
        for (group, name), value in options.items():
            group_name = None if group == "DEFAULT" else group
            config.CONF.set_override(name, value, group=group_name)
        main_database.configure(config.CONF)
        api_database.configure(config.CONF)
        migration.db_sync(database="api")
        migration.db_sync(database="main")

    def _replace_peers(self) -> None:
        config.CONF.set_override("transport_url", "fake:/")
        rpc.init(config.CONF)
        # A client registers the options of RPC.
        rpc.get_client(oslo_messaging.Target(topic="any"))
        for patch in (
            mock.patch.object(
                rpc, "get_client", lambda target, *_, **__: Client(self, target.topic)
            ),
            mock.patch.object(rpc, "ClientRouter", lambda client, *_, **__: client),
            mock.patch.object(
                report.SchedulerReportClient, "_create_client", return_value=Placement(self)
            ),
            mock.patch.object(neutron, "get_client", return_value=self._neutron()),
            mock.patch.object(glance.API, "get", side_effect=self._image),
            mock.patch.object(glance.API, "create", return_value={"id": UUID.format(0xB000, 2)}),
            mock.patch.object(cinder, "API", mock.MagicMock()),
            # To open a file of SQLite again for each query takes a fifth of the time.
            mock.patch.object(engines.pool, "NullPool", engines.pool.QueuePool),
        ):
            patch.start()

    def _image(self, *_: Any, **__: Any) -> dict[str, Any]:
        return dict(self.peers.image)

    def _neutron(self) -> Any:
        client = mock.MagicMock()
        client.list_ports.side_effect = lambda **_: {"ports": list(self.peers.ports)}
        names = ("port-resource-request", "port-resource-request-groups", "binding-extended")
        extensions = [{"alias": name, "name": name} for name in names]
        client.list_extensions.return_value = {"extensions": extensions}
        return client

    def _create_cells(self) -> Iterator[Any]:
        for number, uuid in enumerate(
            (cell_mapping.CellMapping.CELL0_UUID, UUID.format(0xA000, 1))
        ):
            database = "cell0" if number == 0 else "main"
            cell = objects.CellMapping(
                self.admin,
                uuid=uuid,
                name=f"cell{number}",
                transport_url="fake:/",
                database_connection=f"sqlite:///{self.folder}/{database}.sqlite",
            )
            if number == 0:
                (self.folder / "cell0.sqlite").write_bytes(
                    (self.folder / "main.sqlite").read_bytes()
                )
            cell.create()
            yield cell

    def create_host(self, name: str, number: int, **node: Any) -> None:
        """Create a host whose service is up."""
        with context.target_cell(self.admin, self.cells[1]) as targeted:
            service = objects.Service(
                targeted, host=name, binary="nova-compute", topic="compute", report_count=1
            )
            service.create()
            compute_node = objects.ComputeNode(
                targeted,
                **{
                    "uuid": UUID.format(0x8000, number),
                    "host": name,
                    "hypervisor_hostname": name,
                    "vcpus": 8,
                    "memory_mb": 8192,
                    "local_gb": 64,
                    "vcpus_used": 0,
                    "memory_mb_used": 0,
                    "local_gb_used": 0,
                    "free_ram_mb": 8192,
                    "free_disk_gb": 64,
                    "running_vms": 0,
                    "current_workload": 0,
                    "disk_available_least": 64,
                    "hypervisor_type": "QEMU",
                    "hypervisor_version": 8002000,
                    "cpu_info": "{}",
                    "host_ip": "127.0.0.1",
                    "stats": {},
                    "supported_hv_specs": [],
                    "cpu_allocation_ratio": 1.0,
                    "ram_allocation_ratio": 1.0,
                    "disk_allocation_ratio": 1.0,
                    "mapped": 1,
                    **node,
                },
            )
            compute_node.create()
            objects.HostMapping(self.admin, host=name, cell_mapping=self.cells[1]).create()
            self.nodes[name] = compute_node

    def set_service(self, host: str, *, status: str = "up", version: int | None = None) -> None:
        """Set the state of a compute service: words of up, disabled, down, forced down."""
        with context.target_cell(self.admin, self.cells[1]) as targeted:
            service = objects.Service.get_by_compute_host(targeted, host)
            service.disabled = "disabled" in status
            service.forced_down = "forced down" in status
            is_silent = "down" in status and "forced" not in status
            service.last_seen_up = timeutils.utcnow() - 2 * DOWN_TIME * is_silent
            service.save()
            if version is not None:
                main_database.service_update(targeted, service.id, {"version": version})

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, version: str = ""
    ) -> Any:
        """The response of nova's API."""
        request = webob.Request.blank(path, method=method, base_url="http://localhost/v2.1")
        version = version or api_version_request._MAX_API_VERSION
        request.headers["OpenStack-API-Version"] = f"compute {version}"
        request.environ["nova.context"] = self.operator
        if body is not None:
            request.content_type = "application/json"
            request.body = json.dumps(body).encode()
        return request.get_response(self._app)

    def set_node(self, host: str, values: Mapping[str, Any]) -> None:
        """Set fields of the compute node of a host."""
        with context.target_cell(self.admin, self.cells[1]) as targeted:
            node = objects.ComputeNode.get_by_host_and_nodename(targeted, host, host)
            for name, value in values.items():
                setattr(node, name, value)
            node.save()

    def create_zone(self, name: str, hosts: Sequence[str]) -> None:
        """Create a host aggregate that is an availability zone."""
        aggregate = objects.Aggregate(self.admin, name=name, metadata={"availability_zone": name})
        aggregate.create()
        for host in hosts:
            aggregate.add_host(host)
        self.scheduler.host_manager.update_aggregates([aggregate])

    def create_share(self, uuid: str, number: int) -> None:
        """Give a server a share, in a release that has them."""
        if not hasattr(objects, "ShareMapping"):
            return
        with context.target_cell(self.operator, self.cells[1]) as targeted:
            objects.ShareMapping(
                targeted,
                uuid=UUID.format(0xF300, number),
                instance_uuid=uuid,
                share_id=UUID.format(0xF400, number),
                status="active",
                tag=f"share-{number}",
                export_location="nfs:/share",
                share_proto="NFS",
            ).create()

    def clear(self) -> None:
        """Delete all servers and flavors, with what belongs to them."""
        for name in ("api", "main"):
            with contextlib.closing(sqlite3.connect(self.folder / f"{name}.sqlite")) as database:
                database.execute("PRAGMA synchronous = OFF")
                # An older release does not have all of these tables.
                names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
                existing = {table for (table,) in names}
                for table in _TABLES[name]:
                    if table in existing:
                        database.execute(f"DELETE FROM {table}")
                database.commit()

    def create_flavor(self, name: str, **values: Any) -> Any:
        """A flavor with new numbers; ``extra_specs`` and ``disabled`` are optional."""
        numbers = {"vcpus": 2, "memory_mb": 2048, "root_gb": 20, "ephemeral_gb": 0, "swap": 0}
        flavor = objects.Flavor(
            self.admin,
            **{
                "name": name,
                "flavorid": name,
                "rxtx_factor": 1.0,
                "is_public": True,
                "disabled": False,
                **numbers,
                "extra_specs": {},
                **values,
            },
        )
        flavor.create()
        return flavor

    def create_server(
        self,
        uuid: str,
        flavor: Any,
        *,
        host: str | None = "host-0",
        image: Mapping[str, Any] | None = None,
        boot_disk: int | None = None,
        vifs: Sequence[Mapping[str, Any]] = (),
        volume: bool = False,
        pci_requests: Any = None,
        **values: Any,
    ) -> Any:
        """A server in the cell, with its mapping, its request spec, disk and ports."""
        properties = dict(image or {})
        if host:
            values = {"host": host, "node": host, **values}
            if "compute_id" in objects.Instance.fields:
                values.setdefault("compute_id", self.nodes[host].id)
        values = {
            "image_ref": "" if volume else IMAGE,
            "launched_on": host,
            "system_metadata": _image_metadata(
                properties, flavor.root_gb if boot_disk is None else boot_disk
            ),
            "info_cache": objects.InstanceInfoCache(
                network_info=network_model.NetworkInfo.hydrate(list(vifs))
            ),
            "pci_requests": pci_requests or objects.InstancePCIRequests(requests=[]),
            **values,
        }
        with context.target_cell(self.operator, self.cells[1]) as targeted:
            instance = objects.Instance(targeted, **{**_at_rest(uuid, flavor), **values})
            instance.create()
            _disk(targeted, uuid, volume=volume).create()
        owner = {"project_id": PROJECT, "user_id": "u"}
        objects.InstanceMapping(
            self.admin,
            instance_uuid=uuid,
            cell_mapping=self.cells[1],
            queued_for_delete=False,
            **owner,
        ).create()
        meta = objects.ImageMeta.from_dict({"id": IMAGE, "name": "i", "properties": properties})
        rest = (flavor, None, instance.pci_requests, {}, None, None)
        spec = objects.RequestSpec.from_components(self.operator, uuid, meta, *rest, **owner)
        spec.is_bfv = volume
        spec.create()
        return instance

    def act(self, uuid: str, body: Mapping[str, Any], version: str = "") -> Any:
        """The response of nova's API to an action of a server."""
        return self.request("POST", f"/servers/{uuid}/action", body, version)

    def conduct(self) -> None:
        """Let the conductor do what nova's API has sent to it. Raises nova's exceptions."""
        for topic, method, arguments in list(self.peers.messages):
            if topic == "conductor":
                unexpected(getattr(self.conductor, method), self.operator, **arguments)


def _image_metadata(properties: Mapping[str, Any], boot_disk: int) -> dict[str, str]:
    """Nova keeps the disk of the flavor with which a server was built as the image's."""
    return {f"image_{key}": str(value) for key, value in properties.items()} | {
        "image_min_disk": str(boot_disk),
        "image_min_ram": "0",
        "image_disk_format": "qcow2",
        "image_container_format": "bare",
        "image_base_image_ref": IMAGE,
    }


def _at_rest(uuid: str, flavor: Any) -> dict[str, Any]:
    """The fields of an active server without a task."""
    sizes = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")
    return {
        "uuid": uuid,
        "project_id": PROJECT,
        "user_id": "u",
        "display_name": uuid,
        "hostname": "s",
        "vm_state": "active",
        "power_state": 1,
        "task_state": None,
        "flavor": flavor,
        **{name: getattr(flavor, name) for name in sizes},
        "launched_at": timeutils.utcnow(),
        "root_device_name": "/dev/vda",
        "availability_zone": "nova",
        "locked": False,
        "security_groups": objects.SecurityGroupList(objects=[]),
    }


def _disk(targeted: Any, uuid: str, *, volume: bool) -> Any:
    """The root disk of a server, on its host or on a volume."""
    return objects.BlockDeviceMapping(
        targeted,
        instance_uuid=uuid,
        boot_index=0,
        device_name="/dev/vda",
        source_type="volume" if volume else "image",
        destination_type="volume" if volume else "local",
        volume_id=UUID.format(0xC000, 1) if volume else None,
        image_id=IMAGE,
        delete_on_termination=True,
        connection_info="{}" if volume else None,
        attachment_id=UUID.format(0xD000, 1) if volume else None,
    )
