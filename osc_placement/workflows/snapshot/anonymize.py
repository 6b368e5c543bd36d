# SPDX-License-Identifier: Apache-2.0
"""Anonymizes a snapshot: reads its names, extends the key, and writes a new file.

The rule: every text that is not a number, a switch or a standard name gets a pseudonym. Standard
names are the traits and resource classes of Placement, and the names and words that nova defines.
Of the recorded responses of nova and neutron only the fields that the commands read are kept.

The new file has no byte of the old one: it is not a copy of its pages. One record is in memory.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import re
import sqlite3
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from osc_placement import errors
from osc_placement.engine import record, standard
from osc_placement.model import command_line, name
from osc_placement.nova import flavor
from osc_placement.scheduling import filters
from osc_placement.server.store import database_file, sqlite
from osc_placement.workflows.snapshot import file, pseudonyms
from osc_placement.workflows.snapshot.pseudonyms import NameKind, Pseudonyms


def write(path: pathlib.Path, target: pathlib.Path, key_path: pathlib.Path) -> None:
    """Write the anonymized form of a snapshot to ``target``, a new file.

    The key file is written first, so that no file exists without its key. An existing key file of
    the cloud is extended. Errors: PlacementError; then ``target`` does not exist.
    """
    with file.opened(path) as opened:
        metadata = _anonymizable(path, opened.metadata)
        listed = {*opened.traits(), *opened.resource_classes()}
        compared = metadata_keys(opened.recording())
    _check_paths(target, key_path)
    key = pseudonyms.read(key_path) or pseudonyms.create(metadata.origin)
    if key.origin != metadata.origin:
        raise errors.PlacementError(
            f"{key_path} is the key of snapshots of {key.origin}, this one is of"
            f" {metadata.origin}: give another --key-file; nothing was changed"
        )
    standard_names = {text for text in listed if not text.startswith(name.CUSTOM_PREFIX)}
    texts: dict[NameKind, set[str]] = {kind: set() for kind in NameKind}

    def collect(kind: NameKind, text: str) -> str:
        texts[kind].add(text)
        return text

    with file.explained():
        with database_file.reading(str(path)) as connection:
            for _ in _rows(Pseudonyms(collect, standard_names, compared), connection):
                """Every name in the snapshot is collected."""
        key.add(texts)
        pseudonyms.write(key_path, key)
        anonymous = dataclasses.replace(
            metadata, origin=key.identity, target=key.identity, anonymized=True
        )
        names = Pseudonyms(key.pseudonym, standard_names, compared)
        _write_rows(str(path), target, names, anonymous)


def _check_paths(target: pathlib.Path, key_path: pathlib.Path) -> None:
    shown = command_line.quote(str(target))
    file.check_new(target)
    if key_path.absolute() == target.absolute():
        raise errors.PlacementError(
            f"{shown} cannot be the key file too: give another --key-file; nothing was changed"
        )
    for path in (target, key_path):
        if not path.absolute().parent.is_dir():
            raise errors.PlacementError(
                f"{path} cannot be written: folder {path.parent} does not exist; nothing was"
                " changed"
            )


def _anonymizable(
    path: pathlib.Path, metadata: file.SnapshotMetadata | None
) -> file.SnapshotMetadata:
    if metadata is None:
        raise errors.PlacementError(
            f"{path} is a database, not a snapshot of a cloud: save a snapshot of it first"
            " (placement snapshot save)"
        )
    if metadata.anonymized:
        raise errors.PlacementError(f"{path} is already anonymized")
    return metadata


#: The beginning of a note with the text of an error, which may contain anything.
_NOT_READ = "not read: "


def _provider(names: Pseudonyms, provider: record.ProviderRecord) -> record.ProviderRecord:
    return dataclasses.replace(
        provider,
        uuid=names.uuid(provider.uuid),
        name=names.host(provider.name),
        root_uuid=names.uuid(provider.root_uuid),
        parent_uuid=names.uuid(provider.parent_uuid) if provider.parent_uuid else None,
        inventories={
            names.resource_class(name): item for name, item in provider.inventories.items()
        },
        traits=frozenset(names.trait(name) for name in provider.traits),
        aggregates=tuple(names.uuid(uuid) for uuid in provider.aggregates),
    )


def _consumer(names: Pseudonyms, consumer: record.ConsumerRecord) -> record.ConsumerRecord:
    consumer_type = consumer.consumer_type
    return dataclasses.replace(
        consumer,
        uuid=names.uuid(consumer.uuid),
        project_id=names.project(consumer.project_id),
        user_id=names.user(consumer.user_id),
        consumer_type=names.consumer_type(consumer_type) if consumer_type else None,
        allocations={
            names.uuid(uuid): {
                names.resource_class(name): amount for name, amount in resources.items()
            }
            for uuid, resources in consumer.allocations.items()
        },
    )


def anonymized_note(names: Pseudonyms, note: file.SaveNote) -> file.SaveNote:
    """The UUIDs and names in a note; the text of an error is left out."""
    is_error = note.text.startswith(_NOT_READ)
    text = f"{_NOT_READ}the error is left out" if is_error else names.text(note.text)
    return file.SaveNote(names.uuid(note.uuid), text)


def _rows(
    names: Pseudonyms, connection: sqlite3.Connection
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """``(table, row)`` of the new file, in the order of the old one."""
    for provider in sqlite.providers(connection):
        yield "provider", sqlite.from_provider(_provider(names, provider))
    for consumer in sqlite.consumers(connection):
        yield "consumer", sqlite.from_consumer(_consumer(names, consumer))
    for trait, updated_at in connection.execute("SELECT * FROM trait ORDER BY rowid"):
        yield "trait", (names.trait(trait), updated_at)
    for resource_class, at in connection.execute("SELECT * FROM resource_class ORDER BY rowid"):
        yield "resource_class", (names.resource_class(resource_class), at)
    for row in connection.execute("SELECT uuid, note FROM snapshot_note ORDER BY rowid"):
        yield "snapshot_note", tuple(anonymized_note(names, file.SaveNote(*row)))
    for request, body in connection.execute("SELECT * FROM recording ORDER BY rowid"):
        response = anonymized_response(names, request, orjson.loads(body))
        if response is not None:
            yield "recording", (response[0], orjson.dumps(response[1]).decode())


def _write_rows(
    path: str, target: pathlib.Path, names: Pseudonyms, metadata: file.SnapshotMetadata
) -> None:
    """Write the new form of all records to ``target``, completely or not at all.

    ``metadata`` is that of the new file; its digest is computed. Errors: StoreError.
    """
    with database_file.reading(path) as source, file.created(target) as connection:
        for table, row in _rows(names, source):
            marks = ", ".join("?" * len(row))
            connection.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", row)  # noqa: S608
        file.write_metadata(connection, metadata)


#: ``{path: (the list of a response, what the names in it belong to)}``
_LISTS = {
    "/os-aggregates": ("aggregates", NameKind.AGGREGATE),
    "/os-services": ("services", NameKind.VALUE),
    "/os-hypervisors/detail": ("hypervisors", NameKind.HOST),
    "/os-server-groups": ("server_groups", NameKind.GROUP),
    "/os-migrations": ("migrations", NameKind.VALUE),
    "/servers/detail": ("servers", NameKind.SERVER),
    "/flavors/detail": ("flavors", NameKind.FLAVOR),
    "/ports": ("ports", NameKind.PORT),
}
_REQUEST = re.compile(r"GET /v2(?:\.\d+)?(?P<path>/[^?]*)\??(?P<query>.*)")
#: The query parameters whose values contain no names.
_PLAIN_PARAMETERS = frozenset(
    {"all_projects", "all_tenants", "binary", "deleted", "is_public", "limit", "offset"}
)


def anonymized_response(names: Pseudonyms, request: str, body: Any) -> tuple[str, Any] | None:
    """A response and its request; None for a request that no command sends."""
    parts = _REQUEST.fullmatch(request)
    if parts is None or parts["path"] not in _LISTS:
        return None
    key, kind = _LISTS[parts["path"]]
    pairs = []
    for parameter, text in urllib.parse.parse_qsl(parts["query"]):
        if parameter in _PLAIN_PARAMETERS:
            pairs.append((parameter, text))
        elif parameter in ("marker", "id"):
            pairs.append((parameter, _id(names, kind, text)))
        else:
            return None
    path, _, _ = request.partition("?")
    query = f"?{urllib.parse.urlencode(pairs)}" if pairs else ""
    links = body.get(f"{key}_links")
    return f"{path}{query}", {
        key: [_object(names, kind, item) for item in body[key]],
        **({f"{key}_links": [{"rel": link["rel"]} for link in links]} if links else {}),
    }


def metadata_keys(recorded: Mapping[str, Any]) -> frozenset[str]:
    """The keys of the metadata of all host aggregates in recorded responses."""
    return frozenset(
        key
        for request in recorded
        if (parts := _REQUEST.fullmatch(request)) and parts["path"] == "/os-aggregates"
        for aggregate in recorded[request]["aggregates"]
        for key in aggregate.get("metadata") or {}
    )


#: Returns a value of a response with replaced names; the kind is that of the list.
Field = Callable[[Pseudonyms, NameKind, Any], Any]


def _object(names: Pseudonyms, kind: NameKind, value: Any) -> Any:
    """The fields of an object, or of each object of a list, that the commands read."""
    if isinstance(value, list):
        return [_object(names, kind, item) for item in value]
    if not isinstance(value, Mapping):
        return None if value else value
    return {
        field: None if item is None else _FIELDS[field](names, kind, item)
        for field, item in value.items()
        if field in _FIELDS
    }


def _texts(replace: Callable[[Pseudonyms, str], str]) -> Field:
    """A text, or all texts of a list or of a mapping; the others stay."""

    def replaced(names: Pseudonyms, kind: NameKind, value: Any) -> Any:
        if isinstance(value, str):
            return replace(names, value) if value else value
        if isinstance(value, list):
            return [replaced(names, kind, item) for item in value]
        if isinstance(value, Mapping):
            return {replace(names, key): replaced(names, kind, item) for key, item in value.items()}
        return value

    return replaced


def _keep(_: Pseudonyms, __: NameKind, value: Any) -> Any:
    return value


def _id(names: Pseudonyms, kind: NameKind, value: Any) -> Any:
    """A UUID, a number, or the ID that an administrator gave a flavor."""
    if not isinstance(value, str) or not value:
        return value
    return names.of(kind, value) if kind is NameKind.FLAVOR else names.uuid(value)


def _name(names: Pseudonyms, kind: NameKind, value: Any) -> Any:
    return names.of(kind, str(value)) if value else value


def _words(text: str) -> list[str]:
    """A list of names, many in one line."""
    return text.split()


#: The fields that the commands read; no other field of a response is kept.
_FIELDS: dict[str, Field] = {
    **dict.fromkeys(
        _words(
            "status state forced_down binary running_vms policy max_server_per_host"
            " migration_type created created_at updated updated_at vcpus ram disk swap"
            " ephemeral revision_number OS-FLV-EXT-DATA:ephemeral OS-EXT-SRV-ATTR:root_device_name"
            " OS-EXT-STS:vm_state OS-EXT-STS:task_state"
            " binding:vnic_type"
        ),
        _keep,
    ),
    **dict.fromkeys(
        _words(
            "service rules flavor image os-extended-volumes:volumes_attached resource_request"
            " request_groups binding:profile"
        ),
        _object,
    ),
    **dict.fromkeys(
        _words("uuid instance_uuid device_id members same_subtree allocation"),
        _texts(Pseudonyms.uuid),
    ),
    **dict.fromkeys(
        _words(
            "host hosts hypervisor_hostname source_compute source_node dest_compute dest_node"
            " OS-EXT-SRV-ATTR:host OS-EXT-SRV-ATTR:hypervisor_hostname"
        ),
        _texts(Pseudonyms.host),
    ),
    "id": _id,
    "name": _name,
    "original_name": lambda names, _, value: _name(names, NameKind.FLAVOR, value),
    "pinned_availability_zone": lambda names, _, value: _name(names, NameKind.ZONE, value),
    **dict.fromkeys(("project_id", "tenant_id"), _texts(Pseudonyms.project)),
    "user_id": _texts(Pseudonyms.user),
    "required": _texts(Pseudonyms.trait),
    "resources": _texts(Pseudonyms.resource_class),
    "extra_specs": lambda names, _, value: extra_specs(names, value),
    "properties": lambda names, _, value: image_properties(names, value),
    "metadata": lambda names, kind, value: (
        metadata(names, value) if kind is NameKind.AGGREGATE else {}
    ),
}

PMEM, PCI_ALIAS = "hw:pmem", "pci_passthrough:alias"

#: The extra specs and image properties that nova defines and that decide about hosts, without the
#: namespace: ``hw:cpu_policy`` and ``hw_cpu_policy``.
_PROPERTIES = frozenset(
    _words(
        "alias architecture cdrom_bus cpu_cores cpu_dedicated_mask cpu_max_cores"
        " cpu_max_sockets cpu_max_threads cpu_policy cpu_realtime cpu_realtime_mask"
        " cpu_sockets cpu_thread_policy cpu_threads device_profile disk_bus"
        " emulation_architecture emulator_threads_policy ephemeral_encryption"
        " ephemeral_encryption_format firmware_stateless firmware_type"
        " hv_requested_version hv_type locked_memory machine_type maxphysaddr_mode"
        " mem_encryption mem_encryption_model mem_page_size numa_cpus numa_mem numa_nodes"
        " pci_numa_affinity_policy pmem pmu secure_boot serial_port_count sound_model"
        " tpm_model tpm_secret_security tpm_version video_model vif_model"
        " vif_multiqueue_enabled viommu_model virtio_packed_ring vm_mode"
    )
)
_TENANT = "filter_tenant_id"
_FLAVORS = "instance_type"
#: Keys without a namespace: of extra specs, and of the metadata that nova's filters read.
_PLAIN_KEYS = frozenset(
    _words(
        f"group_policy {_FLAVORS} cpu_allocation_ratio disk_allocation_ratio ram_allocation_ratio"
        " max_instances_per_host max_io_ops_per_host"
    )
)
_NAMESPACE = re.compile(r"(?:hw|os|img|accel|pci_passthrough)[:_]")
#: ``hw:numa_cpus.1`` and ``hw_numa_mem.0`` are properties of one NUMA node.
_NODE = re.compile(r"\.\d+$")
#: The scopes of extra specs that nova's filters compare with metadata and with capabilities.
_SCOPES = ("aggregate_instance_extra_specs", "capabilities")

_NUMBERS = re.compile(r"[\d.,^\s-]*")
_MACHINE = re.compile(r"(?:pc|virt|(?:pc-)?(?:q35|i440fx))(?:-[\d.]+)?")
#: Switches, and the words that nova defines as values of the properties above.
_WORDS = frozenset(
    _words(
        "1 t true on y yes 0 f false off n no dedicated shared mixed isolate share prefer"
        " require none required forbidden optional disabled legacy preferred socket"
        " passthrough emulate amd-sev amd-sev-es virtio uefi bios tpm-tis tpm-crb user"
        " host deployment plain luks luksv2 amd64 i386"
    )
)


def is_defined(key: str) -> bool:
    """Whether nova defines the key of an extra spec, an image property or metadata."""
    name = _NODE.sub("", key)
    namespace = _NAMESPACE.match(name)
    return name in _PLAIN_KEYS or (namespace is not None and name[namespace.end() :] in _PROPERTIES)


def extra_specs(names: Pseudonyms, specs: Mapping[str, Any]) -> dict[str, str]:
    """The extra specs of a flavor."""
    return dict(_extra_specs(names, specs))


def _extra_specs(names: Pseudonyms, specs: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, raw in specs.items():
        text = str(raw)
        group = flavor.parse_group_key(key)
        if group is not None:
            suffix = group.suffix
            if suffix and not suffix.removeprefix("_").isdigit():
                suffix = names.of(NameKind.GROUP, suffix)
            replace = names.trait if group.kind == "trait" else names.resource_class
            yield f"{group.kind}{suffix}:{replace(group.what)}", value(names, text)
        elif key == PMEM:
            yield key, ",".join(_pmem_label(names, label) for label in text.split(","))
        elif key == PCI_ALIAS:
            yield key, ",".join(_alias(names, alias) for alias in text.split(","))
        elif is_defined(key):
            yield key, _requirement(names, key, text)
        else:
            scope, colon, rest = key.rpartition(":")
            if not colon or scope in _SCOPES:
                yield f"{scope}{colon}{_key(names, rest)}", _requirement(names, rest, text)


def _requirement(names: Pseudonyms, key: str, text: str) -> str:
    """The value of an extra spec, whose operators stay: ``<or> a <or> b``."""
    operators = filters.OPERATORS
    words = text.split()
    if not words or words[0] not in operators:
        return _value_of(names, key, text)
    return " ".join(word if word in operators else _value_of(names, key, word) for word in words)


def metadata(names: Pseudonyms, pairs: Mapping[str, str]) -> dict[str, str]:
    """The metadata of a host aggregate; equal keys and values of flavors and images stay equal."""
    return {_metadata_key(names, key): _metadata(names, key, pairs[key]) for key in pairs}


def _metadata_key(names: Pseudonyms, key: str) -> str:
    if key == "availability_zone":
        return key
    if key.startswith(_TENANT):
        suffix = key.removeprefix(_TENANT)
        return _TENANT + (names.of(NameKind.GROUP, suffix) if suffix else "")
    if key.startswith("trait:"):
        return f"trait:{names.trait(key.removeprefix('trait:'))}"
    return _key(names, key)


def _metadata(names: Pseudonyms, key: str, text: str) -> str:
    if key == "availability_zone":
        return names.of(NameKind.ZONE, text)
    parts = [part.strip() for part in text.split(",")]
    if key.startswith(_TENANT):
        return ",".join(map(names.project, parts))
    return ",".join(_value_of(names, key, part) for part in parts)


def _value_of(names: Pseudonyms, key: str, text: str) -> str:
    """The value of a key, equal in metadata, extra specs and properties of images."""
    return names.of(NameKind.FLAVOR, text) if key == _FLAVORS else value(names, text)


def _key(names: Pseudonyms, key: str) -> str:
    """A key that nova defines, unchanged; the pseudonym of any other."""
    return key if is_defined(key) else names.of(NameKind.VALUE, key)


def image_properties(names: Pseudonyms, properties: Mapping[str, Any]) -> dict[str, str]:
    """The properties of an image."""
    replaced = {}
    for key, raw in properties.items():
        if key.startswith("trait:"):
            replaced[f"trait:{names.trait(key.removeprefix('trait:'))}"] = value(names, str(raw))
        elif is_defined(key) or key in names.compared:
            replaced[_key(names, key)] = _value_of(names, key, str(raw))
    return replaced


def value(names: Pseudonyms, text: str) -> str:
    """A value that nova defines, unchanged; the pseudonym of any other."""
    word = text.strip().lower()
    is_plain = word in _WORDS or _NUMBERS.fullmatch(word) or _MACHINE.fullmatch(word)
    if is_plain or f"_{word.upper().replace('-', '_')}" in _trait_endings():
        return text
    return names.of(NameKind.VALUE, text)


@functools.cache
def _trait_endings() -> frozenset[str]:
    """``_VIRTIO``, ``_X86_64``: nova makes standard traits of some values."""
    return frozenset(
        name[at:] for name in standard.traits() for at, char in enumerate(name) if char == "_"
    )


def _pmem_label(names: Pseudonyms, label: str) -> str:
    """The label whose resource class is the pseudonym of the label's."""
    if not label.strip():
        return label
    name = names.resource_class(flavor.pmem_class(label))
    return name.removeprefix(flavor.PMEM_PREFIX)


def _alias(names: Pseudonyms, alias: str) -> str:
    name, colon, count = alias.partition(":")
    if not name.strip():
        return alias
    return (
        f"{names.of(NameKind.VALUE, name.strip())}{colon}{value(names, count) if count else count}"
    )
