# SPDX-License-Identifier: Apache-2.0
"""Create hosts, flavors, servers and allocations, with one call each."""

from __future__ import annotations

import datetime
import json
import pathlib
import uuid as uuids
from collections.abc import Iterable, Mapping
from typing import Any

from keystoneauth1 import adapter, session
from keystoneauth1.identity import v3
from nova import config, context as contexts, objects
from nova.db.main import api as database, models
from nova.network import model as network

from lab import place

NAMESPACE = uuids.UUID("10ca1ab0-0000-4000-8000-000000000000")
#: The time of the caching scheduler, which wrote no allocations.
BIRTH = datetime.datetime(2017, 8, 1)
DOMAIN = ".lab.example.org"

#: total, reserved, allocation_ratio by resource class
Inventory = Mapping[str, tuple[int, int, float]]
Owner = tuple[str, str]
#: amounts by resource class, by provider
Allocations = Mapping[str, Mapping[str, int]]

USUAL: Inventory = {
    "VCPU": (64, 2, 4.0),
    "MEMORY_MB": (262144, 4096, 1.0),
    "DISK_GB": (4000, 50, 1.0),
}


def uid(*name: object) -> str:
    """The UUID that is derived from a name."""
    return str(uuids.uuid5(NAMESPACE, "/".join(map(str, name))))


def node_of(host: str) -> str:
    """The UUID of a host's only compute node, and of its provider."""
    return uid("node", host + DOMAIN)


class World:
    """A cloud under construction; ``facts`` records every UUID and its reason."""

    def __init__(self, folder: pathlib.Path, port: int) -> None:
        self._lab = place.Place(folder, port)
        config.parse_args(["seed"], default_config_files=[str(folder / "etc/nova/nova.conf")])
        objects.register_all()
        self.admin = contexts.get_admin_context()
        cells = objects.CellMappingList.get_all(self.admin)
        self.cell0, self.cell1 = sorted(cells, key=lambda cell: not cell.is_cell0())
        self._placement, identity = self._adapters()
        projects, users = (
            {item["name"]: item["id"] for item in identity.get(f"/{kind}").json()[kind]}
            for kind in ("projects", "users")
        )
        self.owners: list[Owner] = [
            (projects["acme"], users["alice"]),
            (projects["globex"], users["bob"]),
        ]
        #: The owner of consumers of other services than nova.
        self.service: Owner = (projects["service"], users["robot"])
        self.flavors: dict[str, Any] = {}
        self.nodes: dict[str, Any] = {}
        self.providers: dict[str, str] = {}
        self.ports: dict[str, Any] = {}
        self._services: set[str] = set()
        self._mapped: set[str] = set()
        kinds = ("hosts", "aggregates", "flavors", "servers", "migrations", "consumers", "faulty")
        self.facts: dict[str, Any] = {kind: {} for kind in kinds}

    def _adapters(self) -> tuple[Any, Any]:
        admin = v3.Password(
            auth_url=self._lab.url("keystone", "/v3"),
            username="admin",
            password=place.PASSWORD,
            project_name="admin",
            user_domain_name="Default",
            project_domain_name="Default",
        )
        opened = session.Session(auth=admin)
        placement = adapter.Adapter(
            opened, service_type="placement", region_name=place.REGION, raise_exc=False
        )
        return placement, adapter.Adapter(opened, service_type="identity")

    def write(self) -> None:
        """Write the ports for the substitute neutron, and the facts for the tests."""
        extensions = {"port-resource-request": "Port Resource Request"}
        ports = {"ports": self.ports, "extensions": extensions}
        self._lab.write("neutron.json", json.dumps(ports, indent=1, sort_keys=True))
        nodes = {name: node.uuid for name, node in self.nodes.items()}
        facts = {**self.facts, "owners": self.owners, "providers": {**self.providers, **nodes}}
        self._lab.write("seed.json", json.dumps(facts, indent=1, sort_keys=True))

    # -- placement

    def call(self, method: str, url: str, body: Any = None, version: str = "1.39") -> Any:
        """Send a request that must succeed."""
        headers = {"OpenStack-API-Version": f"placement {version}"}
        answer = self._placement.request(url, method, json=body, headers=headers)
        if answer.status_code >= 400:
            raise SystemExit(f"{method} {url} {body}: {answer.status_code} {answer.text}")
        return answer.json() if answer.text else None

    def provider(
        self,
        name: str,
        inventory: Inventory,
        traits: Iterable[str] = (),
        uuid: str | None = None,
        parent: str | None = None,
    ) -> str:
        """Create a provider and return its UUID."""
        uuid = uuid or uid("rp", name)
        body = {"name": name, "uuid": uuid}
        if parent:
            body["parent_provider_uuid"] = parent
        generation = self.call("POST", "/resource_providers", body)["generation"]
        if inventory:
            sent = {name: _inventory(*numbers) for name, numbers in inventory.items()}
            generation = self.call(
                "PUT",
                f"/resource_providers/{uuid}/inventories",
                {"resource_provider_generation": generation, "inventories": sent},
            )["resource_provider_generation"]
        if traits:
            self.call(
                "PUT",
                f"/resource_providers/{uuid}/traits",
                {"resource_provider_generation": generation, "traits": sorted(traits)},
            )
        self.providers[name] = uuid
        return uuid

    def join(self, provider: str, *aggregates: str) -> None:
        """Set the aggregates of a provider."""
        path = f"/resource_providers/{provider}"
        generation = self.call("GET", path)["generation"]
        body = {"aggregates": list(aggregates), "resource_provider_generation": generation}
        self.call("PUT", f"{path}/aggregates", body)

    def allocate(
        self, consumer: str, allocations: Allocations, owner: Owner | None, how: str = "1.28"
    ) -> None:
        """Write a consumer's allocations.

        ``how``: 1.7 (no owner; placement sets placeholders), 1.28 (with owner, unknown type),
        or the type of the consumer.
        """
        path = f"/allocations/{consumer}"
        if owner is None:
            old = [
                {"resource_provider": {"uuid": provider}, "resources": amounts}
                for provider, amounts in allocations.items()
            ]
            self.call("PUT", path, {"allocations": old}, version="1.7")
            return
        new = {provider: {"resources": amounts} for provider, amounts in allocations.items()}
        body = {"allocations": new, "project_id": owner[0], "user_id": owner[1]}
        typed = {} if how == "1.28" else {"consumer_type": how}
        version = "1.38" if typed else how
        self.call("PUT", path, {**body, **typed, "consumer_generation": None}, version)

    # -- nova

    def host(
        self,
        name: str,
        node: str | None = None,
        *,
        provider: bool = True,
        mapping: bool = True,
        compute: bool = True,
        inventory: Inventory = USUAL,
        traits: Iterable[str] = ("HW_CPU_X86_AVX2", "COMPUTE_NODE"),
        hypervisor: str = "QEMU",
    ) -> None:
        """Create a compute service (once), a compute node, a host mapping and a provider."""
        node = node or name + DOMAIN
        uuid = uid("node", node)
        with contexts.target_cell(self.admin, self.cell1) as context:
            self._service(context, name)
            if compute:
                made = _compute_node(
                    context, name, node, inventory, hypervisor, len(self.nodes) + 1
                )
                made.create()
                self.nodes[node] = made
        if mapping and name not in self._mapped:
            objects.HostMapping(self.admin, host=name, cell_mapping=self.cell1).create()
            self._mapped.add(name)
        if provider:
            self.provider(node, inventory, traits, uuid=uuid)
        self.facts["hosts"].setdefault(name, {})[node] = {
            "uuid": uuid,
            "provider": provider,
            "compute_node": compute,
            "host_mapping": mapping,
        }

    def _service(self, context: Any, name: str) -> None:
        if name in self._services:
            return
        service = objects.Service(
            context,
            host=name,
            binary="nova-compute",
            topic="compute",
            report_count=1,
            disabled=False,
            uuid=uid("service", name),
        )
        service.create()
        service.last_seen_up = datetime.datetime(2026, 1, 1)
        service.save()
        self._services.add(name)

    def aggregate(self, name: str, hosts: Iterable[str], **metadata: str) -> None:
        """Create a host aggregate in nova's database; placement does not get it."""
        made = objects.Aggregate(self.admin, name=name, uuid=uid("agg", name), metadata=metadata)
        made.create()
        hosts = list(hosts)
        for host in hosts:
            made.add_host(host)
        self.facts["aggregates"][name] = {"uuid": made.uuid, "hosts": hosts}

    def flavor(
        self,
        name: str,
        vcpus: int,
        ram: int,
        disk: int,
        *,
        swap: int = 0,
        ephemeral: int = 0,
        **specs: str,
    ) -> None:
        """Create a flavor; RAM and swap in MiB, disks in GiB."""
        made = objects.Flavor(
            self.admin,
            name=name,
            flavorid=name,
            vcpus=vcpus,
            memory_mb=ram,
            root_gb=disk,
            swap=swap,
            ephemeral_gb=ephemeral,
            rxtx_factor=1.0,
            vcpu_weight=0,
            disabled=False,
            is_public=True,
            extra_specs=specs,
        )
        made.create()
        self.flavors[name] = made
        amounts = {"vcpus": vcpus, "ram": ram, "disk": disk, "swap": swap, "ephemeral": ephemeral}
        self.facts["flavors"][name] = {**amounts, "extra_specs": specs}

    def usual(self, flavor: str) -> dict[str, int]:
        """The allocation of an ordinary server with this flavor."""
        made = self.flavors[flavor]
        disk = made.root_gb + made.ephemeral_gb + -(-made.swap // 1024)
        return {"VCPU": made.vcpus, "MEMORY_MB": made.memory_mb, "DISK_GB": disk}

    def migration(self, name: str, kind: str, status: str, source: str, target: str) -> str:
        """Create a migration of the server of the same name and return its UUID."""
        server = self.facts["servers"][name]
        with contexts.target_cell(self.admin, self.cell1) as context:
            made = objects.Migration(
                context,
                uuid=uid("migration", name),
                instance_uuid=server["uuid"],
                migration_type=kind,
                status=status,
                source_compute=source,
                source_node=source + DOMAIN,
                dest_compute=target,
                dest_node=target + DOMAIN,
                dest_compute_id=self.nodes[target + DOMAIN].id,
                hidden=False,
                old_instance_type_id=self.flavors["m1.small"].id,
                new_instance_type_id=self.flavors["m1.large"].id,
                user_id=server["user"],
                project_id=server["project"],
            )
            made.create()
            set_birth(context, made.uuid, BIRTH, models.Migration)
        self.facts["migrations"][name] = {
            "uuid": made.uuid,
            "server": name,
            "status": status,
            "type": kind,
            "source": source,
            "dest": target,
        }
        return str(made.uuid)

    def consume(
        self,
        name: str,
        allocations: Allocations,
        audit: str,
        why: str,
        owner: Owner | None,
        how: str = "1.28",
    ) -> str:
        """Allocate to a consumer that is not a server, record it, and return its UUID."""
        uuid = uid("orphan", name)
        self.allocate(uuid, allocations, owner, how)
        self.note("consumers", name, uuid, audit, why)
        return uuid

    def note(self, kind: str, name: str, uuid: str, audit: str, why: str) -> None:
        """Record the expected audit result of a consumer or a provider."""
        self.facts[kind][name] = {"uuid": uuid, "audit": audit, "why": why}

    def shrink(self, host: str, **totals: int) -> None:
        """Reduce the inventories of a host below its usage."""
        path = f"/resource_providers/{node_of(host)}/inventories"
        inventories = self.call("GET", path)
        for resource_class, total in totals.items():
            inventories["inventories"][resource_class].update(total=total, max_unit=total)
        self.call("PUT", path, inventories)

    def owner(self, server: str) -> Owner:
        """The project and user of a server."""
        fields = self.facts["servers"][server]
        return fields["project"], fields["user"]

    def give(
        self, server: str, allocations: Allocations, how: str = "1.28", owner: Owner | None = None
    ) -> None:
        """Allocate to a server; see ``allocate``."""
        fields = self.facts["servers"][server]
        owner = None if how == "1.7" else owner or self.owner(server)
        self.allocate(fields["uuid"], allocations, owner, how)
        fields["allocations"] = how


def set_birth(
    context: Any, uuid: str, born: datetime.datetime, model: Any = models.Instance
) -> None:
    """Set the creation time of a server or a migration in the database."""
    with database.get_context_manager(context).writer.using(context) as opened:
        rows = opened.query(model).filter_by(uuid=uuid)
        rows.update({"created_at": born, "updated_at": born})


def no_network() -> Any:
    """The network information of a server without ports."""
    return network.NetworkInfo.hydrate([])


def _inventory(total: int, reserved: int, ratio: float) -> dict[str, object]:
    return {
        "total": total,
        "reserved": reserved,
        "min_unit": 1,
        "max_unit": total,
        "step_size": 1,
        "allocation_ratio": ratio,
    }


def _compute_node(
    context: Any, host: str, node: str, inventory: Inventory, hypervisor: str, number: int
) -> Any:
    total = {name: numbers[0] for name, numbers in inventory.items()}
    # Without an uptime in the stats, nova-api would call the compute service.
    uptime = " 10:00:00 up 99 days,  1:00,  0 users,  load average: 0.00, 0.00, 0.00"
    return objects.ComputeNode(
        context,
        uuid=uid("node", node),
        host=host,
        hypervisor_hostname=node,
        vcpus=total.get("VCPU", 0),
        memory_mb=total.get("MEMORY_MB", 0),
        local_gb=total.get("DISK_GB", 0),
        vcpus_used=0,
        memory_mb_used=4096,
        local_gb_used=0,
        free_ram_mb=0,
        free_disk_gb=0,
        current_workload=0,
        running_vms=0,
        disk_available_least=0,
        hypervisor_type=hypervisor,
        hypervisor_version=8002000,
        cpu_info='{"arch": "x86_64", "vendor": "Intel"}',
        host_ip="10.0.{}.{}".format(*divmod(number, 250)),
        stats={"uptime": uptime},
        cpu_allocation_ratio=4.0,
        ram_allocation_ratio=1.0,
        disk_allocation_ratio=1.0,
    )
