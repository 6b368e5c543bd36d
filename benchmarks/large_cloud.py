# SPDX-License-Identifier: Apache-2.0
"""Commands on a large cloud with seeded faults: requests, time, memory, and exact results."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import pathlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks import client
from tests.support.clouds import large
from tests.support.peer import target as targets

if TYPE_CHECKING:
    from benchmarks.gunicorn_placement import Service

_TRAIT = "HW_CPU_X86_VMX"
_RATIO = 2.5

#: ``{seeded fault: the code of its finding}``
_CODES = {
    "missing": "missing",
    "orphaned": "orphaned",
    "doubled": "doubled",
    "size": "wrong-size",
    "owner": "wrong-owner",
}

_RATIOS = """
SELECT count(*) FROM inventories i JOIN resource_classes c ON c.id = i.resource_class_id
WHERE c.name = 'VCPU' AND i.allocation_ratio = :ratio
"""
_TRAITS = """
SELECT count(*) FROM resource_provider_traits r JOIN traits t ON t.id = r.trait_id
WHERE t.name = :trait
"""
_MEMBERS = "SELECT count(*) FROM resource_provider_aggregates"
_PROVIDERS = "SELECT count(*) FROM resource_providers"
_INVENTORIES = "SELECT count(*) FROM inventories"
_CONSUMERS = "SELECT count(*) FROM consumers"


@dataclasses.dataclass(frozen=True)
class Operation:
    """A command, its exit codes, and a check of its result.

    ``check`` receives the printed JSON and returns what it found and what it should have found.
    ``is_local``: the command names a file or a database, not the service.
    """

    name: str
    arguments: Sequence[str]
    check: Callable[[Any], tuple[Any, Any]]
    codes: Sequence[int] = (0,)
    is_local: bool = False


@dataclasses.dataclass(frozen=True)
class Figure:
    """The measurement of an operation; ``deviation`` is empty if its result is exact."""

    name: str
    run: client.Run
    service_cpu: float
    requests: collections.Counter[str]
    deviation: str

    @property
    def result(self) -> str:
        """The deviation in one line."""
        return " ".join(self.deviation.split())[:300] or "exact"


def measure(
    service: Service,
    cloud: large.LargeCloud,
    folder: pathlib.Path,
    only: Sequence[str] = (),
    limit: float | None = None,
) -> Iterator[Figure]:
    """Run the operations, in their order, and yield their figures; ``only`` selects by name.

    An operation is killed after ``limit`` seconds. One that fails has a deviation, and the others
    run.
    """
    recording = folder / "nova.json"
    recording.write_text(json.dumps(cloud.nova()))
    answers = folder / "output.json"
    options = targets.admin_options(service.url)
    for operation in operations(service, cloud, recording, folder):
        if only and operation.name not in only:
            continue
        service.requests()
        before = service.cpu()
        form = [] if "metrics" in operation.arguments else ["-f", "json"]
        arguments = [*([] if operation.is_local else options), *operation.arguments, *form]
        run = client.run(client.ours(), arguments, output=answers, codes=None, limit=limit)
        used, requests = service.cpu() - before, service.requests()
        yield Figure(operation.name, run, used, requests, _deviation(operation, run, answers))


def _deviation(operation: Operation, run: client.Run, answers: pathlib.Path) -> str:
    """How the result differs from the seeded one; empty if it does not."""
    if run.code not in operation.codes:
        return f"exit code {run.code}: {run.output.strip()[-250:]}"
    text = answers.read_text()
    try:
        answer, expected = operation.check(json.loads(text) if text.strip() else None)
    except (ValueError, TypeError, KeyError, sqlite3.Error) as error:
        return f"the result cannot be read: {error!r}"
    return "" if answer == expected else f"found {answer}, expected {expected}"


def operations(
    service: Service, cloud: large.LargeCloud, recording: pathlib.Path, folder: pathlib.Path
) -> Iterator[Operation]:
    """The operations; later ones see the changes of earlier ones."""
    providers = sum(1 + host.devices for host in cloud.hosts)
    group, hosts = cloud.aggregates[0][0], len(cloud.hosts)
    members = len([host for host in cloud.aggregates[0][1] if host not in cloud.unmirrored])
    nova = ["--os-nova-recording", str(recording)]
    listing = ["resource", "provider", "list"]

    def rows(expected: int) -> Callable[[Any], tuple[Any, Any]]:
        return lambda answer: (len(answer), expected)

    def stored(query: str, expected: int, **values: Any) -> Callable[[Any], tuple[Any, Any]]:
        return lambda _: (service.tables.scalar(query, **values), expected)

    yield Operation("list", listing, rows(providers))
    yield Operation("list --long", [*listing, "--long"], rows(providers))
    amend = ["resource", "provider", "inventory", "amend"]
    amend += ["--resource", f"VCPU:allocation_ratio={_RATIO}"]
    for name, selector, expected in (
        ("aggregate", ["--member-of", group], members),
        ("all", ["--name-glob", "*.example.org"], hosts),
    ):
        line = [*amend, *selector]
        yield Operation(f"amend {name}, dry run", [*line, "--dry-run"], rows(expected))
        check = stored(_RATIOS, expected, ratio=_RATIO)
        yield Operation(f"amend {name}", line, check)
    trait = ["resource", "provider", "trait", "add", "--trait", _TRAIT]
    trait += ["--name-glob", "*.example.org"]
    yield Operation("trait add all", trait, stored(_TRAITS, hosts, trait=_TRAIT))
    mirror = ["placement", "aggregate", "mirror", "--allow", "recorded-nova", *nova]
    yield Operation("mirror", mirror, stored(_MEMBERS, hosts))
    yield from _allocations(cloud, nova)
    yield from _snapshots(service, folder)
    flavors = ["placement", "flavor", "audit", *nova]
    yield Operation("flavor audit", flavors, rows(len(large.FLAVORS)), codes=(0, 3))
    report = ["placement", "report", "write", "--output", str(folder / "report.html"), *nova]
    yield Operation("report", report, lambda answer: (answer["hosts"], hosts))
    providers_audit = ["placement", "provider", "audit", *nova]
    yield Operation("provider audit", providers_audit, rows(0), codes=(0, 3))
    yield Operation("health", ["placement", "health", "show", *nova], _severities, codes=(0, 3, 4))
    yield from _of_tables(service, cloud, nova, folder)


def _severities(answer: Any) -> tuple[Any, Any]:
    """Every area was checked."""
    return {row["code"] for row in answer if row["severity"] == "not checked"}, set()


def _of_tables(
    service: Service, cloud: large.LargeCloud, nova: Sequence[str], folder: pathlib.Path
) -> Iterator[Operation]:
    """A snapshot of the tables with nova's data; health and metrics of this file."""
    file, textfile = folder / "tables.sqlite", folder / "placement.prom"
    configuration = ["--os-placement-config", str(folder / "placement.conf")]
    save = [*configuration, "placement", "snapshot", "save", str(file), "--with-nova", *nova]

    def records(answer: Any) -> tuple[Any, Any]:
        counts = answer["resource_providers"], answer["consumers"]
        return counts, (service.tables.scalar(_PROVIDERS), service.tables.scalar(_CONSUMERS))

    def samples(_: Any) -> tuple[Any, Any]:
        text = textfile.read_text(encoding="utf-8")
        return text.count("openstack_placement_resource_usage{"), service.tables.scalar(
            _INVENTORIES
        )

    yield Operation("snapshot of the tables", save, records, is_local=True)
    on_file = ["--os-placement-database", str(file), "placement"]
    show = [*on_file, "health", "show"]
    yield Operation("health of the file", show, _severities, codes=(0, 3, 4), is_local=True)
    write = [*on_file, "metrics", "write", "--textfile", str(textfile)]
    yield Operation("metrics of the file", write, samples, is_local=True)


def _snapshots(service: Service, folder: pathlib.Path) -> Iterator[Operation]:
    def saved(file: pathlib.Path) -> Callable[[Any], tuple[Any, Any]]:
        def check(_: Any) -> tuple[Any, Any]:
            with contextlib.closing(sqlite3.connect(file)) as database:
                (counts,) = database.execute(
                    "SELECT (SELECT count(*) FROM provider), (SELECT count(*) FROM consumer)"
                )
            return counts, (service.tables.scalar(_PROVIDERS), service.tables.scalar(_CONSUMERS))

        return check

    save = ["placement", "snapshot", "save"]
    for name, option in (("snapshot, no owners", ["--without-owners"]), ("snapshot", [])):
        file = folder / f"{len(option)}.sqlite"
        yield Operation(name, [*save, str(file), *option], saved(file))


def _allocations(cloud: large.LargeCloud, nova: Sequence[str]) -> Iterator[Operation]:
    seeded = {(code, uuid) for fault, code in _CODES.items() for uuid in cloud.seeded[fault]}
    healed = {*cloud.seeded["missing"], *cloud.seeded["owner"]}

    def findings(answer: Any) -> tuple[Any, Any]:
        return _difference({(row["code"], row["uuid"]) for row in answer}, seeded)

    def planned(answer: Any) -> tuple[Any, Any]:
        planned = {row["uuid"] for row in answer if row["status"] == "planned"}
        return _difference(planned, healed)

    heal = ["placement", "allocation", "heal", "--dry-run", *nova]
    yield Operation("heal, dry run", heal, planned)
    audit = ["placement", "allocation", "audit", *nova]
    yield Operation("audit", audit, findings, codes=(0, 3))
    repair = [*audit, "--repair", "--allow", "recorded-nova"]
    yield Operation("audit --repair", repair, findings, codes=(0, 3, 9))
    yield Operation("audit after repair", audit, lambda answer: (answer, []))


def _difference(answer: set[Any], expected: set[Any]) -> tuple[Any, Any]:
    """The numbers of values, and some that only one of the sets contains; equal for equal sets."""
    first = sorted(answer - expected)[:3], sorted(expected - answer)[:3]
    return (len(answer), *first), (len(expected), [], [])
