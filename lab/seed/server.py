# SPDX-License-Identifier: Apache-2.0
"""One server in nova's databases, with all records that nova would write."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from nova import context as contexts, objects

from lab.seed import cloud_builder
from lab.seed.cloud_builder import World, uid

IMAGE = uid("image", 1)

#: Audit codes that several servers use.
MISSING, UNKNOWN, ORPHANED, INCOMPLETE = "missing", "unknown", "orphaned", "incomplete"
LEAKED = "leaked-move"


@dataclasses.dataclass(frozen=True)
class Server:
    """A server to create, and the reason for it. ``node`` defaults to the node of the host."""

    name: str
    flavor: str
    host: str | None = None
    why: str = ""
    _: dataclasses.KW_ONLY
    #: The expected audit code; empty for a correct server.
    audit: str = ""
    #: The server cannot be repaired from outside.
    stays: bool = False
    node: str | None = None
    vm_state: str = "active"
    task_state: str | None = None
    power: int = 1
    #: Booted from a volume; from a volume with image properties in nova; with a block device
    #: mapping; with an image.
    volume: bool = False
    imaged: bool = False
    device: bool = True
    image: bool = True
    image_properties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    old_flavor: str | None = None
    new_flavor: str | None = None
    #: In cell0: never scheduled.
    buried: bool = False
    deleted: bool = False
    #: With an instance mapping.
    mapped: bool = True
    hidden: bool = False

    @property
    def uuid(self) -> str:
        """The UUID, derived from the name."""
        return uid("server", self.name)

    @property
    def at(self) -> str | None:
        """The name of its compute node."""
        return self.node or (self.host + cloud_builder.DOMAIN if self.host else None)


def make(cloud: World, server: Server) -> None:
    """Write a server and its records to nova's databases. Owners alternate."""
    number = len(cloud.facts["servers"]) + 1
    project, user = owner = cloud.owners[number % 2]
    cell = cloud.cell0 if server.buried else cloud.cell1
    born = cloud_builder.BIRTH + datetime.timedelta(minutes=number)
    with contexts.target_cell(cloud.admin, cell) as context:
        made = _instance(cloud, context, server, number, born, owner)
        made.create()
        if server.device:
            _device(context, server).create()
        if server.mapped:
            objects.InstanceMapping(
                cloud.admin,
                instance_uuid=server.uuid,
                project_id=project,
                user_id=user,
                queued_for_delete=server.deleted,
                cell_mapping=cell,
            ).create()
        cloud_builder.set_birth(context, server.uuid, born)
        if server.deleted:
            made.destroy()
    if server.mapped and not server.deleted:
        _request(cloud, server, owner).create()
    cloud.facts["servers"][server.name] = {
        "uuid": server.uuid,
        "flavor": server.flavor,
        "volume": server.volume or not (server.device or server.image),
        "image_properties": dict(server.image_properties),
        "host": server.host,
        "node": server.at,
        "vm_state": server.vm_state,
        "task_state": server.task_state,
        "deleted": server.deleted,
        "project": project,
        "user": user,
        "allocations": "none",
        "why": server.why,
        "audit": server.audit,
        "stays": server.stays or server.audit == UNKNOWN,
    }


def _instance(
    cloud: World,
    context: Any,
    server: Server,
    number: int,
    born: datetime.datetime,
    owner: cloud_builder.Owner,
) -> Any:
    flavor = cloud.flavors[server.flavor]
    node = cloud.nodes.get(server.at) if server.at else None
    kept = {f"image_{name}": value for name, value in server.image_properties.items()}
    return objects.Instance(
        context,
        uuid=server.uuid,
        project_id=owner[0],
        user_id=owner[1],
        image_ref=IMAGE if server.image and (server.imaged or not server.volume) else "",
        display_name=server.name,
        hostname=server.name,
        display_description=server.name,
        vm_state=server.vm_state,
        task_state=server.task_state,
        power_state=server.power,
        memory_mb=flavor.memory_mb,
        vcpus=flavor.vcpus,
        root_gb=flavor.root_gb,
        ephemeral_gb=flavor.ephemeral_gb,
        instance_type_id=flavor.id,
        flavor=flavor,
        old_flavor=cloud.flavors.get(server.old_flavor or ""),
        new_flavor=cloud.flavors.get(server.new_flavor or ""),
        host=server.host,
        node=server.at,
        compute_id=node.id if node else None,
        launched_on=server.host,
        launched_at=born if server.host else None,
        reservation_id=f"r-{number:08d}",
        launch_index=0,
        root_device_name="/dev/vda",
        availability_zone="az1",
        system_metadata={**kept, "image_base_image_ref": "" if server.volume else IMAGE},
        metadata={},
        hidden=server.hidden,
        locked=False,
        auto_disk_config=False,
        config_drive="",
        info_cache=objects.InstanceInfoCache(
            context, instance_uuid=server.uuid, network_info=cloud_builder.no_network()
        ),
    )


def _device(context: Any, server: Server) -> Any:
    made = objects.BlockDeviceMapping(
        context,
        uuid=uid("bdm", server.name),
        instance_uuid=server.uuid,
        boot_index=0,
        device_name="/dev/vda",
        delete_on_termination=True,
        source_type="volume" if server.volume else "image",
        destination_type="volume" if server.volume else "local",
        device_type="disk",
        connection_info="{}",
    )
    if server.volume:
        made.volume_id, made.volume_size = uid("volume", server.name), 20
    else:
        made.image_id = IMAGE
    return made


def _request(cloud: World, server: Server, owner: cloud_builder.Owner) -> Any:
    return objects.RequestSpec(
        cloud.admin,
        instance_uuid=server.uuid,
        flavor=cloud.flavors[server.flavor],
        num_instances=1,
        project_id=owner[0],
        user_id=owner[1],
        availability_zone=None,
        scheduler_hints={},
        image=objects.ImageMeta(id=IMAGE),
        is_bfv=server.volume,
    )
