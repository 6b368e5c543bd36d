# SPDX-License-Identifier: Apache-2.0
"""Placement's state as a document, which a test writes in a few lines.

A document is what ``osc-placement-server --load`` reads; the page about this kit lists its keys.

``Cloud`` builds one; ``complete`` fills in what a document leaves out. A ``Cloud`` may have nova's
half too: ``nova()`` is the recording that ``RecordedServices`` and ``--os-nova-recording`` read.
"""

from __future__ import annotations

import copy
import uuid as uuid_module
from collections.abc import Iterable, Mapping
from typing import Any, Self

from osc_placement.server.store import errors
from osc_placement.testing import nova

_EMPTY: Mapping[str, Any] = {
    "custom_resource_classes": [],
    "custom_traits": [],
    "providers": {},
    "consumers": {},
}
_PROVIDER: Mapping[str, Any] = {
    "name": None,
    "parent": None,
    "root": "",
    "generation": 0,
    "inventories": {},
    "traits": [],
    "aggregates": [],
}
_CONSUMER: Mapping[str, Any] = {
    "allocations": {},
    "generation": 1,
    "project": "project",
    "user": "user",
    "type": "INSTANCE",
}


def uuid_of(name: str) -> str:
    """The UUID of a provider, consumer or aggregate in a ``Cloud``, always the same for a name."""
    return str(uuid_module.uuid5(uuid_module.NAMESPACE_DNS, name))


class Cloud:
    """A document in the making; each method returns the cloud::

    Cloud().host("h1", VCPU=8, MEMORY_MB=16384).child("h1", "h1_gpu", VGPU=4)

    Placement's half has hosts, children and servers with allocations, nova's half nodes,
    instances, migrations, flavors and host aggregates. One name is one UUID in both. ``host_name``
    is nova's name of a node's host, such as ``"nova-{}"``.
    """

    def __init__(self, host_name: str = "{}") -> None:
        self._host_name = host_name
        self._document: dict[str, Any] = copy.deepcopy(dict(_EMPTY))
        self._hosts: dict[str, str] = {}
        self._nova: dict[str, list[dict[str, Any]]] = {name: [] for name in nova.PATHS}

    def host(
        self,
        name: str,
        *,
        traits: Iterable[str] = (),
        aggregates: Iterable[str] = (),
        parent: str | None = None,
        **inventories: int | Mapping[str, Any],
    ) -> Self:
        """Add a provider. An inventory is a total, or the fields of Placement's inventory.

        ``aggregates`` and ``parent`` are names. Errors: ValueError for a name that the cloud has,
        TypeError for an inventory that is neither a number nor a mapping, and for a text in place
        of a list.
        """
        self._check_new(name, "providers")
        offered = _inventories(name, inventories)
        for names in (traits, aggregates):
            if isinstance(names, str):
                raise TypeError(f"{name}: {names!r} is not a list: write [{names!r}]")
        self._document["providers"][uuid_of(name)] = {
            "name": name,
            "parent": parent and uuid_of(parent),
            "inventories": offered,
            "traits": list(traits),
            "aggregates": [uuid_of(aggregate) for aggregate in aggregates],
        }
        return self

    def change(self, name: str, **inventories: int | Mapping[str, Any] | None) -> Self:
        """Add inventories to a provider, or replace them; None removes one.

        Errors: ValueError for a name that the cloud does not have, TypeError as of ``host``.
        """
        if uuid_of(name) not in self._document["providers"]:
            raise ValueError(f"the cloud has no provider with the name {name}")
        offered = self._document["providers"][uuid_of(name)]["inventories"]
        for key, value in inventories.items():
            offered.pop(key, None)
            offered |= {} if value is None else _inventories(name, {key: value})
        return self

    def child(self, parent: str, name: str, **options: Any) -> Self:
        """Add a provider below the provider ``parent``; ``options`` as of ``host``."""
        return self.host(name, parent=parent, **options)

    def server(
        self, name: str, allocations: Mapping[str, Mapping[str, int]], **fields: Any
    ) -> Self:
        """Add a consumer: ``server("vm", {"h1": {"VCPU": 2}}, project="p")``.

        Errors: ValueError for a name that the cloud has.
        """
        self._check_new(name, "consumers")
        by_uuid = {uuid_of(provider): dict(amounts) for provider, amounts in allocations.items()}
        self._document["consumers"][uuid_of(name)] = {"allocations": by_uuid, **fields}
        return self

    def node(self, name: str, host: str = "", service: Any = None, **fields: Any) -> Self:
        """Add nova's compute node of the provider ``name``, and the service of its host.

        ``host`` is nova's name of the host. ``service`` are fields of the service, such as
        ``{"state": "down"}``, and ``fields`` those of the node.
        """
        self._hosts[name] = host = host or self._host_name.format(name)
        self._nova["services"].append(nova.service(host, **(service or {})))
        self._nova["hypervisors"].append(nova.node(uuid_of(name), name, host, **fields))
        return self

    def instance(self, name: str, /, node: str | None = None, **fields: Any) -> Self:
        """Add a server of nova on a node; ``server`` adds its allocations. See ``nova.server``.

        The field ``name`` is another display name; one with the status DELETED or
        SOFT_DELETED is listed only with ``deleted=true``.
        """
        place = {"host": self._hosts[node], "node": node} if node else {}
        shown = {"name": name, **place, **fields}
        deleted = "deleted " if shown.get("status") in ("DELETED", "SOFT_DELETED") else ""
        self._nova[f"{deleted}servers"].append(nova.server(uuid_of(name), **shown))
        return self

    def compute(self, *names: str, service: Any = None, **options: Any) -> Self:
        """Add compute hosts: providers with ``options`` as of ``host``, and nova's nodes."""
        for name in names:
            self.host(name, **options).node(name, service=service)
        return self

    def delete_service(self, node: str) -> Self:
        """Nova has no service and no node of this name any more; the provider stays."""
        gone = {"services": ("host", self._hosts[node]), "hypervisors": ("id", uuid_of(node))}
        for kind, (field, value) in gone.items():
            self._nova[kind] = [item for item in self._nova[kind] if item[field] != value]
        return self

    def cell_down(self, *nodes: str) -> Self:
        """The cell of these nodes is down: nova shows none of them, and no host of its servers."""
        hosts, shown = {self._hosts[node] for node in nodes}, "binary host id tenant_id created"
        for kind, field in (("services", "host"), ("servers", nova.FIELDS["host"])):
            for item in self._nova[kind]:
                if item.get(field) in hosts:
                    for key in item.keys() - shown.split():
                        del item[key]
                    item["status"] = "UNKNOWN"
        listed = self._nova["hypervisors"]
        self._nova["hypervisors"] = [it for it in listed if it["service"]["host"] not in hosts]
        return self

    def guest(self, name: str, node: str, vcpus: int = 1, **fields: Any) -> Self:
        """Add a server of nova and its VCPU on the node; as of nova, without a consumer type."""
        self.server(name, {node: {"VCPU": vcpus}}, type="unknown")
        return self.instance(name, node, vcpus=vcpus, **fields)

    def migration(self, name: str, server: str, source: str, target: str, **fields: Any) -> Self:
        """Add a migration of a server between two nodes. See ``nova.migration``."""
        ends = {"source_compute": self._hosts[source], "source_node": source}
        ends |= {"dest_compute": self._hosts[target], "dest_node": target}
        made = nova.migration(uuid_of(name), uuid_of(server), **{**ends, **fields})
        self._nova["migrations"].append(made)
        return self

    def flavor(self, name: str, **fields: Any) -> Self:
        """Add a flavor of nova. See ``nova.flavor``."""
        self._nova["flavors"].append(nova.flavor(name, **fields))
        return self

    def aggregate(self, name: str, nodes: Iterable[str], **metadata: str) -> Self:
        """Add a host aggregate of nova; what is no node of the cloud is the name of a host."""
        hosts = [self._hosts.get(node, node) for node in nodes]
        listed = self._nova["aggregates"]
        listed.append(nova.aggregate(len(listed) + 1, name, uuid_of(name), hosts, **metadata))
        return self

    @property
    def parts(self) -> dict[str, Any]:
        """The tables of the document and nova's listings, to change them in place."""
        return {**self._document, **self._nova}

    def nova(self) -> dict[str, Any]:
        """Nova's answers, ``{"GET /v2.1/os-services": body}``."""
        return nova.answers(**self._nova)

    def _check_new(self, name: str, kind: str) -> None:
        if uuid_of(name) in self._document[kind]:
            raise ValueError(f"the cloud has two {kind} with the name {name}")

    def document(self) -> dict[str, Any]:
        """The document, complete. Errors: DocumentInvalid."""
        return complete(self._document)


def _inventories(name: str, inventories: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    for key, value in inventories.items():
        if not isinstance(value, int | Mapping):
            raise TypeError(f"{name}: {key}={value!r} is not a total or a mapping of fields")
    return {
        key: {"total": value} if isinstance(value, int) else dict(value)
        for key, value in inventories.items()
    }


def complete(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document with the default of every missing key; custom names in use are created.

    Errors: DocumentInvalid for a key that a document does not have.
    """
    problems: list[str] = []
    whole = _filled(document, _EMPTY, "the document", problems)
    for key in ("providers", "consumers"):
        if not isinstance(whole[key], Mapping):
            raise errors.DocumentInvalid([f"{key!r} is not an object"])
    whole["providers"] = {
        uuid: _filled(fields, _PROVIDER, f"provider {uuid}", problems)
        for uuid, fields in whole["providers"].items()
    }
    whole["consumers"] = {
        uuid: _filled(fields, _CONSUMER, f"consumer {uuid}", problems)
        for uuid, fields in whole["consumers"].items()
    }
    if problems:
        raise errors.DocumentInvalid(problems)
    providers = whole["providers"]
    for uuid, fields in providers.items():
        fields["root"] = fields["root"] or _root(uuid, providers)
    for key, field in (("custom_traits", "traits"), ("custom_resource_classes", "inventories")):
        names = {name for fields in providers.values() for name in fields[field]}
        custom = sorted(name for name in names if name.startswith("CUSTOM_"))
        whole[key] = list(dict.fromkeys([*whole[key], *custom]))
    return whole


def _filled(
    fields: Mapping[str, Any], defaults: Mapping[str, Any], what: str, problems: list[str]
) -> dict[str, Any]:
    if not isinstance(fields, Mapping):
        problems.append(f"{what} is {fields!r}, not an object")
        return dict(defaults)
    unknown = sorted(set(fields) - set(defaults))
    if unknown:
        problems.append(f"{what} has {', '.join(unknown)}; its keys are {', '.join(defaults)}")
    return {**defaults, **fields}


def _root(uuid: str, providers: Mapping[str, Mapping[str, Any]]) -> str:
    """The root of a provider's tree; a missing or circular parent is found when it is loaded."""
    path = [uuid]
    while (parent := providers.get(path[-1], _PROVIDER)["parent"]) and parent not in path:
        path.append(parent)
    return path[-1]
