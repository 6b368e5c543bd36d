# SPDX-License-Identifier: Apache-2.0
"""Whether nova accepts an action on a server.

Run this in the checkout with the Python of a release of nova: ``python -m lab.api_refusals``. It
reads one JSON object a line and prints one a line. ``{"do": "words"}`` prints nova's own names:
``{version, service, oldest, vm_states, task_states, power_states, vnic_types, encryption_models,
ways}``. Any other object is a server and a way, see ``Server``; the answer is ``{"ok": true}``, or
``{"refused", "text", "stage"}``: the class of nova's exception, its text, and where it came from::

    api         nova-api answers 400 or more
    conductor   nova-api answers 202, and nova-conductor refuses before it asks the scheduler
    scheduler   the scheduler has no host
    target      nova-conductor refuses the hosts of the scheduler

Both have ``status``, the HTTP status, and ``queries``, the query strings that the scheduler sent to
Placement. Every host has room, so the last two stages show the filters and the checks of targets.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import sys
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

# The first import selects the backend of threads.
import nova.api.openstack  # noqa: F401
import webob.exc
from nova import config, exception, objects
from nova.accelerator import cyborg
from nova.api.openstack import api_version_request
from nova.compute import api as compute_api, power_state, task_states, vm_states
from nova.conductor.tasks import live_migrate
from nova.network import model as network_model
from nova.objects import service
from nova.pci import request as pci_request
from nova.virt import hardware
from oslo_utils import timeutils

from lab import nova_process

SERVER = nova_process.UUID.format(0xE000, 1)
IMAGE = nova_process.IMAGE
SOURCE, TARGET, OTHER = HOSTS = ("source", "target", "other")
#: The availability zone of the host ``other``.
ZONE = "zone-a"

ALIAS = {"vendor_id": "10de", "product_id": "1eb8", "device_type": "type-PCI", "name": "gpu"}


def port_request(number: int) -> Mapping[str, Any]:
    """What a port with guaranteed bandwidth requests."""
    group = nova_process.UUID.format(0xF100, number)
    bandwidth = {"NET_BW_EGR_KILOBIT_PER_SEC": 1000}
    return {
        "request_groups": [{"id": group, "required": ["CUSTOM_PHYSNET_A"], "resources": bandwidth}],
        "same_subtree": [group],
    }


def port_profile(number: int) -> Mapping[str, Any]:
    """The provider of its bandwidth, which nova writes into the port."""
    group = nova_process.UUID.format(0xF100, number)
    return {"allocation": {group: nova_process.UUID.format(0x8000, 1)}}


@dataclasses.dataclass(frozen=True)
class Server:
    """A server, its host, and what is asked for it: the keys of a line."""

    way: str
    #: ``target``, ``source``, ``other``, or the name of an unknown host.
    target: str | None = None
    zone: str | None = None
    #: The flavor that is embedded in the server.
    specs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    flavor: Mapping[str, int] = dataclasses.field(default_factory=dict)
    #: The flavor of a resize: ``{specs, disabled, same, and numbers}``.
    new_flavor: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    image: Mapping[str, str] = dataclasses.field(default_factory=dict)
    image_deleted: bool = False
    #: The GB of the root disk when the server was built, if they were not those of the flavor.
    boot_disk: int | None = None
    volume: bool = False
    vm_state: str = vm_states.ACTIVE
    task_state: str | None = None
    power_state: int = power_state.RUNNING
    #: Whether nova has a host of the server.
    on_host: bool = True
    launched: bool = True
    locked: bool = False
    #: ``{vnic_type, request}``; ``request`` is true for a port with guaranteed bandwidth.
    ports: Sequence[Mapping[str, Any]] = ()
    shares: int = 0
    #: The aliases of nova.conf; without any, the server was built with another nova.conf.
    aliases: Sequence[Mapping[str, str]] = ()
    #: Words of up, down, disabled and forced down.
    host_status: str = "up"
    target_status: str = "up"
    #: The version of the service of the host ``other``; None is that of the release.
    least_version: int | None = None
    #: What the compute nodes of the source and of the target are.
    hypervisor: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    target_hypervisor: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    #: ``{"group.option": value}`` of nova.conf.
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    #: The microversion of the request; empty for the newest one of the release.
    microversion: str = ""


def body(server: Server) -> Mapping[str, Any]:
    """The body of the action."""
    named = {"host": server.target} if server.target else {}
    zone = {"availability_zone": server.zone} if server.zone else {}
    bodies: Mapping[str, Mapping[str, Any]] = {
        "live-migrate": {"os-migrateLive": {"block_migration": "auto", "host": server.target}},
        "cold-migrate": {"migrate": named or None},
        "resize": {"resize": {"flavorRef": "old" if server.new_flavor.get("same") else "new"}},
        "evacuate": {"evacuate": named},
        "shelve": {"shelve": None},
        "shelve-offload": {"shelveOffload": None},
        "unshelve": {"unshelve": {**named, **zone} or None},
        "stop": {"os-stop": None},
    }
    return bodies[server.way]


def boot_body(server: Server) -> Mapping[str, Any]:
    """The body of the request for a new server."""
    named = {"host": server.target} if server.target else {}
    zone = {"availability_zone": server.zone} if server.zone else {}
    wanted = {"name": "s", "flavorRef": "old", "imageRef": IMAGE, "networks": "none"}
    return {"server": {**wanted, **named, **zone}}


WAYS = (
    *("live-migrate", "cold-migrate", "resize", "evacuate", "shelve", "shelve-offload"),
    *("unshelve", "stop", "boot"),
)


_API_METHODS = (
    *("live_migrate", "resize", "evacuate", "shelve", "shelve_offload", "unshelve", "stop"),
    "create",
)


def keep_errors(owner: Any, name: str, errors: list[Exception]) -> None:
    """Let a method remember the exceptions that its callers translate or swallow."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def wrapped(*words: Any, **more: Any) -> Any:
        try:
            return method(*words, **more)
        except Exception as error:
            errors.append(error)
            raise

    setattr(owner, name, wrapped)


class Oracle:
    """Asks the nova of one process about one server after the other."""

    def __init__(self) -> None:
        self._process = nova_process.Process()
        for number, host in enumerate(HOSTS, 1):
            self._process.create_host(host, number)
        self._process.create_zone(ZONE, [OTHER])
        self._hosts: dict[str, Any] = {}
        self._errors: list[Exception] = []
        self._of_targets: list[Exception] = []
        for name in _API_METHODS:
            keep_errors(compute_api.API, name, self._errors)
        for name in vars(live_migrate.LiveMigrationTask):
            if name.startswith(("_check_", "_call_livem_checks")):
                keep_errors(live_migrate.LiveMigrationTask, name, self._of_targets)
        mock.patch.object(cyborg, "get_client", mock.MagicMock()).start()

    def ask(self, server: Server) -> Mapping[str, Any]:
        """The answer of nova."""
        self._errors.clear()
        self._of_targets.clear()
        self._process.clear()
        self._process.peers = peers = nova_process.Peers(
            ports=[port(number, wanted) for number, wanted in enumerate(server.ports)],
            image=image(server),
            candidates=self._candidates,
        )
        with options(server.options):
            self._set_hosts(server)
            self._create(server)
            with pci_aliases(server.aliases):
                answer = self._answer(server)
        return {**answer, "queries": list(peers.queries)}

    def _candidates(self, query: str) -> Mapping[str, Any]:
        """Every host, or the one of ``in_tree``, has room for each group of the request."""
        names = [name for name, _ in urllib.parse.parse_qsl(query)]
        groups = [name.removeprefix("resources") for name in names if name.startswith("resources")]
        uuids = [node.uuid for node in self._process.nodes.values()]
        named = [uuid for uuid in uuids if f"in_tree={uuid}" in query]
        return nova_process.candidates({uuid: {"VCPU": 1} for uuid in named or uuids}, groups)

    def _set_hosts(self, server: Server) -> None:
        states = (server.host_status, server.target_status, "up")
        newest = service.SERVICE_VERSION
        versions = (newest, newest, server.least_version or newest)
        nodes = (server.hypervisor, server.target_hypervisor, {})
        plain = {"hypervisor_type": "QEMU", "hypervisor_version": 8002000}
        for host, status, version, node in zip(HOSTS, states, versions, nodes, strict=True):
            wanted = (status, version, {**plain, **node})
            if self._hosts.get(host) != wanted:
                self._process.set_service(host, status=status, version=version)
                self._process.set_node(host, wanted[-1])
                self._hosts[host] = wanted

    def _create(self, server: Server) -> None:
        old = self._process.create_flavor("old", extra_specs=dict(server.specs), **server.flavor)
        if server.way == "resize":
            new = {"vcpus": 4, **server.new_flavor}
            new.pop("same", None)
            self._process.create_flavor("new", extra_specs=dict(new.pop("specs", {})), **new)
        if server.way == "boot":
            return
        instance = self._process.create_server(
            SERVER,
            old,
            host=SOURCE if server.on_host else None,
            image=server.image,
            boot_disk=server.boot_disk,
            vifs=[vif(number, wanted) for number, wanted in enumerate(server.ports)],
            volume=server.volume,
            pci_requests=pci_requests(old, server.aliases),
            numa_topology=numa_topology(old, server.image),
            vm_state=server.vm_state,
            task_state=server.task_state,
            power_state=server.power_state,
            launched_at=timeutils.utcnow() if server.launched else None,
        )
        if server.locked:
            instance.locked, instance.locked_by = True, "owner"
            instance.save()
        for number in range(server.shares):
            self._process.create_share(SERVER, number)
        node = self._process.nodes[SOURCE]
        if server.on_host:
            amounts = {"VCPU": old.vcpus, "MEMORY_MB": old.memory_mb}
            self._process.peers.allocations = {node.uuid: {"resources": amounts}}

    def _answer(self, server: Server) -> Mapping[str, Any]:
        if server.way == "boot":
            content = boot_body(server)
            response = self._process.request("POST", "/servers", content, server.microversion)
        else:
            response = self._process.act(SERVER, body(server), server.microversion)
        status = {"status": response.status_int}
        if response.status_int >= webob.exc.HTTPBadRequest.code:
            (detail,) = response.json.values()
            error = self._errors[0] if self._errors else None
            name = type(error or webob.exc.status_map[response.status_int]()).__name__
            return {"refused": name, "text": detail["message"], "stage": "api", **status}
        return {**self._conducted(), **status}

    def _conducted(self) -> Mapping[str, Any]:
        """What nova-conductor makes of the action."""
        peers = self._process.peers
        error: Exception | None = None
        try:
            self._process.conduct()
        # Nova has a separate exception for each reason.
        except Exception as raised:  # noqa: BLE001
            error = raised
        if error is None and peers.no_host is None:
            return {"ok": True}
        # The conductor tries the other hosts, and then says that there is no host.
        if self._of_targets and peers.queries:
            return refusal(self._of_targets[0], "target")
        if peers.no_host is not None:
            return refusal(peers.no_host, "scheduler")
        assert error is not None
        return refusal(error, "target" if peers.queries else "conductor")


def refusal(error: Exception, stage: str) -> Mapping[str, Any]:
    return {"refused": type(error).__name__, "text": str(error), "stage": stage}


def image(server: Server) -> Mapping[str, Any]:
    """The image as nova reads it from Glance; empty for one that is gone."""
    if server.image_deleted:
        return {}
    return {
        "id": IMAGE,
        "name": "i",
        "status": "active",
        "disk_format": "qcow2",
        "container_format": "bare",
        "min_ram": 0,
        "min_disk": 0,
        "size": 1,
        "owner": nova_process.PROJECT,
        "is_public": True,
        "visibility": "public",
        "created_at": None,
        "updated_at": None,
        "deleted": False,
        "properties": dict(server.image),
    }


def pci_requests(flavor: Any, aliases: Sequence[Mapping[str, str]]) -> Any:
    """The PCI requests of a server that was built with these aliases."""
    with contextlib.suppress(exception.PciInvalidAlias), pci_aliases(aliases or [ALIAS]):
        return pci_request.get_pci_requests_from_flavor(flavor)
    # An older nova does not accept the newer keys of an alias.
    with pci_aliases([ALIAS]):
        return pci_request.get_pci_requests_from_flavor(flavor)


def numa_topology(flavor: Any, properties: Mapping[str, str]) -> Any:
    meta = objects.ImageMeta.from_dict({"id": IMAGE, "name": "i", "properties": dict(properties)})
    return hardware.numa_get_constraints(flavor, meta)


def vif(number: int, wanted: Mapping[str, Any]) -> Any:
    """The port in the server's network information."""
    return network_model.VIF(
        id=nova_process.UUID.format(0xF000, number),
        address=f"fa:16:3e:00:00:{number:02x}",
        network=network_model.Network(id=nova_process.UUID.format(0xF200, 1), subnets=[]),
        type="ovs",
        vnic_type=wanted["vnic_type"],
        profile=port_profile(number) if wanted.get("request") else {},
        active=True,
    )


def port(number: int, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
    """The port in Neutron."""
    request = bool(wanted.get("request"))
    return {
        "id": nova_process.UUID.format(0xF000, number),
        "device_id": SERVER,
        "binding:vnic_type": wanted["vnic_type"],
        "binding:profile": port_profile(number) if request else {},
        "binding:host_id": SOURCE,
        "resource_request": port_request(number) if request else None,
        "network_id": nova_process.UUID.format(0xF200, 1),
        "admin_state_up": True,
    }


@contextlib.contextmanager
def options(values: Mapping[str, Any]) -> Iterator[None]:
    """Options of nova.conf for a while."""
    names = [(key.rpartition(".")[2], key.rpartition(".")[0]) for key in values]
    for (name, group), value in zip(names, values.values(), strict=True):
        config.CONF.set_override(name, value, group=group)
    try:
        yield
    finally:
        for name, group in names:
            config.CONF.clear_override(name, group=group)


@contextlib.contextmanager
def pci_aliases(aliases: Sequence[Mapping[str, str]]) -> Iterator[None]:
    """The aliases of [pci]alias for a while; nova reads them once."""
    caches = [
        function.cache_clear
        for function in vars(pci_request).values()
        if hasattr(function, "cache_clear")
    ]
    with options({"pci.alias": [json.dumps(alias) for alias in aliases]}):
        for clear in caches:
            clear()
        yield
    for clear in caches:
        clear()


def encryption_models() -> list[str]:
    """The models of encrypted memory; older releases have one without a name."""
    field = objects.ImageMetaProps.fields.get("hw_mem_encryption_model")
    return list(field._type.valid_values) if field else []


def constants(module: Any) -> list[str]:
    return sorted(
        value for name, value in vars(module).items() if name.isupper() and isinstance(value, str)
    )


def words() -> Mapping[str, Any]:
    """Nova's own names of what a server can be."""
    return {
        "version": api_version_request._MAX_API_VERSION,
        "service": service.SERVICE_VERSION,
        "oldest": service.SERVICE_VERSION_ALIASES[service.OLDEST_SUPPORTED_SERVICE_VERSION],
        "vm_states": constants(vm_states),
        "task_states": constants(task_states),
        "power_states": {name: number for number, name in sorted(power_state.STATE_MAP.items())},
        "vnic_types": sorted(
            value
            for name, value in vars(network_model).items()
            if name.startswith("VNIC_TYPE_") and isinstance(value, str)
        ),
        "encryption_models": encryption_models(),
        "ways": list(WAYS),
    }


def main() -> None:
    # Nova's libraries print to the output.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    oracle = Oracle()
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = words() if question.get("do") == "words" else oracle.ask(Server(**question))
        # The other questions of a long list are still answered.
        except Exception as error:  # noqa: BLE001
            answer = {"fault": f"{type(error).__name__}: {error}"}
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
