# SPDX-License-Identifier: Apache-2.0
"""Health: every check of the audits on one reading of Placement, nova and neutron.

Each area has the workflow of one command; its problems are those that the command shows. The
requests of the areas overlap, so ``read_once`` keeps the answers until all areas are checked.
An area that cannot be checked (a missing right, a service that is down) is reported as such, and
the others go on. ``lines`` and ``compare`` are pure.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import functools
import http
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from osc_placement import errors
from osc_placement.client import api
from osc_placement.model.allocation import PLACEHOLDER
from osc_placement.model.name import and_more, counted, is_uuid
from osc_placement.neutron.api import Neutron, RecordedNeutron
from osc_placement.nova import api as nova_api, servers as nova_servers
from osc_placement.plan import change, plan
from osc_placement.plan.reasons import Code
from osc_placement.scheduling import nova_options, request
from osc_placement.workflows.batch import aggregate_ratios, mirror
from osc_placement.workflows.cloud import compute_nodes, problem, rehearsal, server_moves, source
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.problem import ProblemCode, Severity
from osc_placement.workflows.explain import flavor_audit
from osc_placement.workflows.repair import findings, status
from osc_placement.workflows.repair.allocations import (
    admission,
    audit as allocation_audit,
    missing,
)
from osc_placement.workflows.repair.allocations.observe import unchecked_owners
from osc_placement.workflows.repair.providers import audit as provider_audit, observe

HOST_DOWN = problem.error(
    "host-down", "Nova-compute of a host is down: no server starts or moves there."
)
HOST_DISABLED = problem.warning("host-disabled", "A host is disabled: no new server starts there.")
MISSING_MEMBER = problem.error(
    "missing-member",
    "Placement lacks a host in a host aggregate: nova does not find it for the zone.",
)
EXTRA_MEMBER = problem.warning(
    "extra-member", "Placement has a host in an aggregate that it left in nova."
)
ALLOCATION_RATIO = problem.warning(
    "allocation-ratio", "The allocation ratio of a host differs from that of its host aggregate."
)

#: Hosts that the text of a problem names; commands that show the problems of one code.
_MOST_HOSTS, _MOST_SHOWS = 2, 2


class HealthProblem(NamedTuple):
    """Something that is wrong: the UUID (or name) that identifies it, and its text for people.

    ``show`` and ``repair`` are command lines without ``openstack``; ``repair`` is empty if no
    command repairs it.
    """

    code: ProblemCode
    subject: str
    text: str
    show: str
    repair: str = ""


class Area(NamedTuple):
    """What one command checks: ``problems``, and how much was checked ("16 providers").

    ``error`` says why it was not checked. ``unread`` are parts that could not be read now;
    ``not_checked`` are parts that cannot be known.
    """

    name: str
    problems: Sequence[HealthProblem] = ()
    checked: str = ""
    error: str = ""
    not_checked: Sequence[str] = ()
    unread: Sequence[str] = ()

    @property
    def is_complete(self) -> bool:
        """Whether all of it was read."""
        return not self.error and not self.unread


@dataclasses.dataclass(frozen=True, slots=True)
class HealthLine:
    """One row of the answer. ``subjects`` are UUIDs or names; ``text`` names the first ones.

    ``new`` and ``gone`` are the subjects that an earlier state lacks or had; None without one.
    ``is_unread``: a part of the area could not be read now. ``meaning`` explains the code.
    """

    severity: Severity
    code: str
    subjects: frozenset[str] = frozenset()
    text: str = ""
    show: str = ""
    repair: str = ""
    new: frozenset[str] | None = None
    gone: frozenset[str] | None = None
    is_unread: bool = False
    meaning: str = ""

    @property
    def since(self) -> str:
        """The change of the number of problems: ``new``, ``gone``, ``=``, ``+2 -1``."""
        if self.new is None or self.gone is None:
            return ""
        if self.subjects and self.subjects == self.new and not self.gone:
            return "new"
        if self.gone and not self.subjects:
            return "gone"
        changes = [f"+{len(self.new)}" if self.new else "", f"-{len(self.gone)}" * bool(self.gone)]
        return " ".join(filter(None, changes)) or "="


@dataclasses.dataclass(frozen=True, slots=True)
class HealthServices:
    """What health reads. ``nova`` and ``neutron`` are texts if they are not there: the reason.

    ``options`` are those of nova.conf, with which flavors are compared.
    """

    client: api.Client
    nova: nova_api.Nova | str
    neutron: Neutron | str
    options: nova_options.SchedulerOptions = dataclasses.field(
        default_factory=nova_options.SchedulerOptions
    )

    def require_nova(self) -> nova_api.Nova:
        """Nova. Errors: PlacementError without one."""
        if isinstance(self.nova, str):
            raise errors.PlacementError(self.nova)
        return self.nova

    def require_neutron(self) -> Neutron:
        """Neutron. Errors: PlacementError without one."""
        if isinstance(self.neutron, str):
            raise errors.PlacementError(self.neutron)
        return self.neutron

    @property
    def neutron_or_none(self) -> Neutron | None:
        """Neutron, None without one."""
        return None if isinstance(self.neutron, str) else self.neutron


def check_areas(
    services: HealthServices, context: ReadContext, *, check_owners: bool = False
) -> list[Area]:
    """Every area, in the order of the answer.

    Requests: those of ``audit_cloud``, ``audit_providers``, ``flavors.audit``, ``plan_mirror``,
    ``plan_aggregate_ratios`` and ``observe_status``, each different one once, and one listing for
    each trait that the flavor or image of a server requires. So at most: one GET of allocations,
    of inventories and of traits per provider, and what ``audit_cloud`` needs for owners.
    """
    context = source.of(services.client, context).context
    with read_once(services):
        audited = functools.cache(
            functools.partial(_audit_allocations, services, context, check_owners)
        )
        checks: Mapping[str, Callable[[], Area]] = {
            "allocations": lambda: _allocations(services, audited()),
            "servers": lambda: _servers(services, audited().snapshot),
            "hosts": lambda: hosts_area(audited().snapshot),
            "host-aggregates": lambda: _host_aggregates(services, context),
            "allocation-ratios": lambda: _ratios(services, context),
            "providers": lambda: _providers(services, context),
            "flavors": lambda: _flavors(services, context),
            "placement": lambda: _placement(services),
        }
        areas = []
        for number, (name, check) in enumerate(checks.items(), 1):
            # What it reads has lines of its own.
            context.progress.start(f"checking {name}, area {number} of {len(checks)}", 1)
            areas.append(_area(name, check))
        return areas


@contextlib.contextmanager
def of_snapshot(
    path: pathlib.Path, options: nova_options.SchedulerOptions
) -> Iterator[HealthServices]:
    """The services of a snapshot, with nova's present options, so that only the cloud differs.

    Errors: PlacementError for a missing file.
    """
    with rehearsal.opened_file(path) as client:
        if not client.has_recording:
            why = f"{path} was saved without nova: save it --with-nova"
            yield HealthServices(client, why, why, options)
            return
        nova = nova_api.RecordedNova(client.recording(), str(path))
        yield HealthServices(client, nova, RecordedNeutron(nova.recorded, str(path)), options)


@contextlib.contextmanager
def read_once(services: HealthServices) -> Iterator[None]:
    """Keep the answers of Placement and of nova for the duration of the block."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(services.client.transport.answers.reading_once())
        if isinstance(services.nova, nova_api.SessionNova):
            stack.enter_context(services.nova.answers.reading_once())
        yield


def named_aggregates(services: HealthServices) -> list[str] | None:
    """The UUIDs of nova's host aggregates; None if they cannot be read. Requests: one to nova."""
    return None if isinstance(services.nova, str) else nova_api.host_aggregate_uuids(services.nova)


def _area(name: str, examine_area: Callable[[], Area]) -> Area:
    try:
        return examine_area()
    except errors.PlacementError as error:
        if getattr(error, "status", None) == http.HTTPStatus.FORBIDDEN:
            return Area(name, error=nova_api.missing(error))
        return Area(name, error="; ".join(str(error).splitlines()))


def _audit_allocations(
    services: HealthServices, context: ReadContext, check_owners: bool
) -> allocation_audit.AuditReading:
    audit_request = allocation_audit.AuditRequest(
        min_age=allocation_audit.MIN_AGE, check_owners=check_owners
    )
    return allocation_audit.read_cloud(
        services.client, services.require_nova(), audit_request, context, services.neutron_or_none
    )


def _allocations(services: HealthServices, audited: allocation_audit.AuditReading) -> Area:
    findings_of_cloud = allocation_audit.find(audited.snapshot, audited.context)
    notes = [] if services.neutron_or_none else [f"ports: {services.neutron}"]
    return Area(
        "allocations",
        [problem_of(item, "placement allocation audit") for item in findings_of_cloud],
        counted(len(audited.snapshot.allocations), "consumer"),
        not_checked=[*notes, *unchecked_owners(audited.snapshot, audited.reader.request)],
        unread=findings.unread(findings_of_cloud),
    )


def problem_of(item: findings.Finding[Any], command: str) -> HealthProblem:
    """The problem of a finding of ``command``, with the commands that show and repair it."""
    repair = f"{command} --repair --only {item.code}" if item.is_repairable else ""
    if item.code == missing.MISSING and repair:
        repair = "placement allocation heal"
    where = [host for host in item.hosts if host != item.subject.name]
    name = item.subject.name or item.subject.uuid
    return HealthProblem(
        item.code,
        item.subject.uuid or item.subject.name,
        " on ".join(filter(None, (_short(name), and_more(where, _MOST_HOSTS)))),
        f"{command} --only {item.code}",
        repair,
    )


def _short(name: str) -> str:
    """The first digits of a UUID; any other name as it is."""
    return name[:8] if is_uuid(name) else name


def _host_aggregates(services: HealthServices, context: ReadContext) -> Area:
    nova, everything = services.require_nova(), mirror.MirrorRequest()
    snapshot, resolved = mirror.read_cloud(services.client, nova, everything, context)
    planned = mirror.decide_mirror(snapshot, resolved)
    command = "placement aggregate mirror"
    missing_members = [
        _about(MISSING_MEMBER, item.subject, command, item.reason) for item in planned.changes
    ]
    extra = [
        _about(EXTRA_MEMBER, item.subject, f"{command} --prune")
        for item in planned.skipped
        if mirror.is_stale(item)
    ]
    refused, unread = _refused(MISSING_MEMBER, planned, command)
    count = len(snapshot.aggregates)
    return Area(
        "host-aggregates",
        [*missing_members, *refused, *extra],
        counted(count, "host aggregate"),
        unread=unread,
    )


def _about(
    code: ProblemCode, subject: change.Subject, repair: str, reason: str = ""
) -> HealthProblem:
    """The problem of a subject that ``repair`` repairs; its dry run shows the problem."""
    text = f"{subject.name} {reason}".strip()
    return HealthProblem(code, subject.uuid, text, f"{repair} --dry-run", repair)


#: The codes of what a plan refuses because it was not read.
_UNREAD = frozenset({Code.UNREADABLE, Code.CELL_DOWN})


def _refused(
    code: ProblemCode, planned: plan.Plan, command: str
) -> tuple[list[HealthProblem], list[str]]:
    """What a plan refuses: the problems, which it does not repair, and what it could not read.

    The hosts with equal reasons are one text.
    """
    problems = []
    unread: dict[str, list[str]] = {}
    for item in planned.skipped:
        if not item.refused:
            continue
        if _UNREAD.isdisjoint(item.code.split(",")):
            text = f"{item.subject.name}: {item.reason}"
            subject = item.subject.uuid or item.subject.name
            problems.append(HealthProblem(code, subject, text, f"{command} --dry-run"))
        else:
            unread.setdefault(item.reason, []).append(item.subject.name)
    return problems, [
        f"{and_more(sorted(names), _MOST_HOSTS)}: {reason}" for reason, names in unread.items()
    ]


def _ratios(services: HealthServices, context: ReadContext) -> Area:
    nova = services.require_nova()
    planned = aggregate_ratios.plan_aggregate_ratios(
        services.client, nova, aggregate_ratios.AggregateRatioRequest(), context
    ).plan
    command = "placement aggregate mirror --ratios"
    refused, unread = _refused(ALLOCATION_RATIO, planned, command)
    # A value that is no number is a row of its host aggregate.
    aggregates = {item.uuid for item in nova_api.host_aggregates(nova)}
    subjects = [item.subject for item in planned.changes]
    subjects += [item.subject for item in planned.skipped]
    hosts = {subject for subject in subjects if subject.uuid not in aggregates}
    problems = [_about(ALLOCATION_RATIO, item.subject, command) for item in planned.changes]
    return Area(
        "allocation-ratios",
        [*problems, *refused],
        f"{counted(len(hosts), 'host')} with ratios",
        unread=unread,
    )


def _providers(services: HealthServices, context: ReadContext) -> Area:
    audited = provider_audit.audit_providers(
        services.client,
        services.require_nova(),
        services.neutron_or_none,
        observe.ProviderAuditRequest(),
        context,
    )
    count = len(services.client.list_providers())
    return Area(
        "providers",
        [problem_of(item, "placement provider audit") for item in audited.findings],
        counted(count, "provider"),
        not_checked=audited.not_checked,
        unread=findings.unread(audited.findings),
    )


def _flavors(services: HealthServices, context: ReadContext) -> Area:
    nova = services.require_nova()
    compute = compute_nodes.read_server_hosts(nova)
    audited = flavor_audit.audit(services.client, nova, (), services.options, context, compute)
    problems = [
        HealthProblem(item.code.problem, item.id, item.name, "placement flavor audit")
        for item in audited
        if item.code not in flavor_audit.NO_FINDING and not item.condition
    ]
    not_checked = sorted(
        {text for item in audited for text in item.caveats.doubts} - {*compute.not_checked}
        | {request.OWNER_UNKNOWN for item in audited if item.condition}
    )
    count = len({item.id for item in audited})
    return Area("flavors", problems, counted(count, "flavor"), "", not_checked, compute.not_checked)


def _placement(services: HealthServices) -> Area:
    observed = status.observe_status(services.client, check=True)
    show = "placement status show --check"
    problems = []
    for check in status.checks(observed):
        if check.verdict is not status.CheckVerdict.SUCCESS:
            repair = (
                "placement migration run" if check.code == status.CONSUMER_WITHOUT_OWNER else ""
            )
            subject = PLACEHOLDER if repair else observed.target
            text = check.details.partition(":")[0]
            problems.append(HealthProblem(check.code, subject, text, show, repair))
    return Area("placement", problems, f"API {observed.server[0]} to {observed.server[1]}")


# Hosts whose nova-compute is down or disabled.


_SERVICES = "compute service list --service nova-compute"


def hosts_area(snapshot: Cloud) -> Area:
    """The hosts that take no server, each with the number of servers that lose something there."""
    services = [one for one in snapshot.hosts.compute_services if one.is_reachable]
    losses = server_moves.losses_on(snapshot, snapshot.hosts.nodes)
    servers: dict[str, set[str]] = collections.defaultdict(set)
    for node in snapshot.hosts.nodes:
        servers[node.host] |= {move.server.uuid for move, _ in losses[node.uuid]}
    problems = [
        HealthProblem(
            HOST_DISABLED if service.is_up else HOST_DOWN,
            service.host,
            f"{service.host}: {counted(len(servers[service.host]), 'server')}",
            _SERVICES,
        )
        for service in services
        if not (service.is_up and service.is_enabled)
    ]
    problems.sort(key=lambda item: (-len(servers[item.subject]), item.subject))
    hidden = sorted(snapshot.hosts.unreachable)
    unread = [f"{and_more(hidden, _MOST_HOSTS)}: the cell is down"] if hidden else []
    return Area("hosts", problems, counted(len(services), "host"), unread=unread)


# Servers on hosts that nova would not choose for them any more.


def _servers(services: HealthServices, snapshot: Cloud) -> Area:
    """Servers whose host lacks a trait, or is in another zone or aggregate, than they require.

    Requests: those of ``admission.observe``.
    """
    rules = admission.observe(services.require_nova(), snapshot, snapshot.servers.values())
    problems = []
    for uuid, broken in rules.items():
        server = snapshot.servers[uuid]
        for rule in broken:
            if rule.is_known:
                text = f"{_short(server.name or uuid)} on {server.host}: {rule.text}"
                show = f"allocation candidate explain --server {uuid}"
                problems.append(HealthProblem(admission.CODES[rule.need], uuid, text, show))
    unread = nova_servers.unread(snapshot.servers.values())
    return Area("servers", problems, counted(len(rules), "server"), unread=unread)


# The answer.


class Mute(NamedTuple):
    """A code that is not counted, until the end of a day (UTC) if there is one."""

    code: str
    until: datetime.date | None = None

    @classmethod
    def parse(cls, text: str) -> Mute:
        """``CODE`` or ``CODE=2026-12-31``. Raises ValueError."""
        code, separator, day = text.strip().partition("=")
        if not code or (separator and not day):
            raise ValueError(f"{text!r} is not CODE or CODE=YYYY-MM-DD")
        try:
            return cls(code, datetime.date.fromisoformat(day) if day else None)
        except ValueError as error:
            raise ValueError(f"{text!r}: {day!r} is not a day as YYYY-MM-DD") from error


def lines(
    areas: Iterable[Area],
    mutes: Iterable[Mute] = (),
    *,
    today: datetime.date,
    before: Iterable[Area] | None = None,
) -> list[HealthLine]:
    """One line per code, the worst first; one line per area without any problem. Pure.

    ``before`` are the areas of an earlier state. Codes that only it has are shown as gone. Areas
    that could not be read whole in one of the states are not compared.
    """
    areas, before = list(areas), None if before is None else list(before)
    muted = {item.code for item in mutes if item.until is None or item.until >= today}
    current = _by_code(areas)
    earlier: dict[str, list[HealthProblem]] = {}
    not_compared: set[str] = {*current} if before is None else set()
    if before is not None:
        skipped = {area.name for area in (*areas, *before) if not area.is_complete}
        earlier = _by_code(area for area in before if area.name not in skipped)
        not_compared = {*_by_code(area for area in areas if area.name in skipped)}
        not_compared |= {*_by_code(area for area in before if area.name in skipped)}
    rows = []
    for code in dict.fromkeys([*current, *earlier]):
        line = _line(code, current.get(code, ()), muted=code in muted)
        if code not in not_compared:
            past = frozenset(item.subject for item in earlier.get(code, ()))
            line = dataclasses.replace(line, new=line.subjects - past, gone=past - line.subjects)
        rows.append(line)
    failed: dict[str, list[str]] = {}
    for area in areas:
        if area.error:
            failed.setdefault(area.error, []).append(area.name)
        elif not area.problems and not area.unread:
            rows.append(HealthLine(Severity.OK, area.name, text=area.checked))
        rows += [_unchecked(area, text, is_unread=True) for text in area.unread]
        rows += [_unchecked(area, text, is_unread=False) for text in area.not_checked]
    # One service that fails is said once.
    rows += [
        HealthLine(Severity.NOT_CHECKED, ", ".join(names), text=text, is_unread=True)
        for text, names in failed.items()
    ]
    order = list(Severity)
    return sorted(rows, key=lambda row: (order.index(row.severity), -len(row.subjects), row.code))


def _unchecked(area: Area, text: str, *, is_unread: bool) -> HealthLine:
    return HealthLine(Severity.NOT_CHECKED, area.name, text=text, is_unread=is_unread)


def _line(code: str, problems: Sequence[HealthProblem], *, muted: bool) -> HealthLine:
    """The line of a code; without problems, of one whose problems are gone."""
    if not problems:
        return HealthLine(Severity.OK, code)
    severity, meaning = problems[0].code.severity, problems[0].code.meaning
    shows = list(dict.fromkeys(f"openstack {item.show}" for item in problems if item.show))
    return HealthLine(
        Severity.MUTED if muted else severity,
        code,
        frozenset(item.subject for item in problems),
        problems[0].text,
        "; ".join(shows) if len(shows) <= _MOST_SHOWS else shows[0],
        next((f"openstack {item.repair}" for item in problems if item.repair), ""),
        meaning=meaning,
    )


def _by_code(areas: Iterable[Area]) -> dict[str, list[HealthProblem]]:
    """``{code: its problems}``; two audits can report one subject under one code."""
    by_code: dict[str, list[HealthProblem]] = {}
    for area in areas:
        for item in area.problems:
            by_code.setdefault(item.code, []).append(item)
    return by_code
