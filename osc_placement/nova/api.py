"""What is asked of nova: one function per question, over a session or from recorded answers.

Called by commands and workflows that hold Placement against nova. Nothing is ever written.
"""

from __future__ import annotations

import contextlib
import datetime
import email.utils
import json
import pathlib
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from osc_placement import errors
from osc_placement.client import api_errors
from osc_placement.nova import values as model

#: The compute API microversions that the questions are asked at: the first that tells a host
#: aggregate's uuid; that gives a hypervisor's uuid as its id (from 2.88 nova would ask every
#: host for its uptime); that tells of services in a cell that is down.
_AGGREGATES = "2.41"
_HYPERVISORS = "2.53"
_SERVICES = "2.69"

_NO_TIME = datetime.timedelta()

#: How many hypervisors are asked for at once: nova's own default limit.
_PAGE = 1000

_RULE = re.compile(r"[a-z_]+_api:[\w:-]+")
_VERSION = re.compile(r"/v2(\.\d+)?(?=/)")


class Nova(Protocol):
    """Answers questions: ``ask("/os-aggregates", "2.41")`` is the parsed JSON of that GET.

    ``source`` names where the answers come from when that is not the cloud itself.
    """

    @property
    def source(self) -> str: ...

    def ask(self, path: str, version: str) -> Any:
        """One request. Errors: NovaRefused, and PlacementError when nobody answers."""


class NovaRefused(api_errors.ApiError):
    """Nova answered with an error; ``rule`` is its policy's rule that forbade it, if it told."""

    def __init__(self, status: int, detail: str, *, url: str = "") -> None:
        super().__init__(status, f"nova, GET {url}: {detail}", method="GET", url=url)
        found = _RULE.search(detail) if status == 403 else None
        self.rule = found[0] if found else None


class SessionNova:
    """Nova as an openstacksdk connection reaches it."""

    source = ""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._clock_offset: datetime.timedelta | None = None

    def clock_offset(self) -> datetime.timedelta:
        """How far this machine's clock is ahead of nova's.

        Cost: one request, once, where nothing was asked yet.
        """
        if self._clock_offset is None:
            self.ask("/servers?limit=1", _HYPERVISORS)
        return self._clock_offset or _NO_TIME

    def ask(self, path: str, version: str) -> Any:
        """One GET at a microversion."""
        try:
            answer = self._connection.compute.get(path, microversion=version, skip_cache=True)
        except Exception as error:  # The SDK's and keystoneauth's errors have no common root.
            raise api_errors.ConnectionFailed(f"nova cannot be asked: {error}") from error
        if self._clock_offset is None:
            self._clock_offset = _clock_offset_of(answer)
        if answer.status_code >= 400:
            raise NovaRefused(answer.status_code, _reason(answer), url=path)
        try:
            return answer.json()
        except ValueError as error:
            raise NovaRefused(answer.status_code, "the answer is no JSON", url=path) from error

    def service_types(self) -> frozenset[str]:
        """What the catalog names."""
        # Not every way to authenticate brings a catalog, and each fails in its own way.
        with contextlib.suppress(Exception):
            return frozenset(str(each["type"]) for each in self._connection.service_catalog)
        return frozenset()


def _clock_offset_of(answer: Any) -> datetime.timedelta:
    """By the time at which an answer was given, to the second; nothing where it does not tell."""
    try:
        told = email.utils.parsedate_to_datetime(answer.headers["Date"])
        return datetime.datetime.now(datetime.UTC) - told
    except (AttributeError, LookupError, TypeError, ValueError):
        return _NO_TIME


def clock_offset(nova: Nova) -> datetime.timedelta:
    """How far this machine's clock is ahead of nova's; nothing where that is not known.

    Nova's own times are compared with others, and asked for, by its clock.
    Cost: one request where nothing was asked of nova yet.
    """
    return nova.clock_offset() if isinstance(nova, SessionNova) else _NO_TIME


def service_types(nova: Nova) -> frozenset[str]:
    """The types of all services of the cloud, from the catalog; none where there is no catalog.

    No request.
    """
    return nova.service_types() if isinstance(nova, SessionNova) else frozenset()


class RecordedNova:
    """Nova's answers of another day: ``{"GET /v2.1/os-aggregates": body}``.

    A question is answered by the recording of its path whose query it shares most of; a
    recording of more than was asked for will do, but never one of other servers.
    """

    def __init__(self, answers: Mapping[str, Any], source: str) -> None:
        self._answers = [
            (*_question(_VERSION.sub("", key.removeprefix("GET "))), body)
            for key, body in answers.items()
        ]
        self.source = source
        #: As they were given: other services' answers may be among them.
        self.recorded = answers

    def ask(self, path: str, version: str) -> Any:
        """No request."""
        wanted, query = _question(path)
        fitting = [
            (len(asked), body)
            for known, asked, body in self._answers
            if known == wanted and asked <= query and _DELETED & asked == _DELETED & query
        ]
        if not fitting:
            raise errors.PlacementError(f"{self.source} holds no answer to GET {path}")
        return max(fitting, key=lambda item: item[0])[1]


#: Without it, deleted servers are not told; with it, nobody else.
_DELETED = frozenset({("deleted", "true")})


def _question(path: str) -> tuple[str, frozenset[tuple[str, str]]]:
    """A path and its query."""
    plain, _, query = path.partition("?")
    return plain, frozenset(urllib.parse.parse_qsl(query))


def read_answers(path: pathlib.Path) -> RecordedNova:
    """Recorded answers from a JSON file. Errors: PlacementError, which names it."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise errors.PlacementError(f"nova's answers in {path} cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise errors.PlacementError(f'{path} is no object of the form {{"GET /path": answer}}')
    return RecordedNova(document, str(path))


def host_aggregates(nova: Nova) -> list[model.HostAggregate]:
    """Every host aggregate with its hosts, by id. Cost: one request.

    Errors: as ``ask``, and PlacementError when nova is too old to tell UUIDs.
    """
    answer = ask_or_unsupported(nova, "/os-aggregates", _AGGREGATES)
    with parsing("/os-aggregates"):
        return [
            model.HostAggregate(
                str(item["id"]), item["name"], item["uuid"], tuple(item.get("hosts") or ())
            )
            for item in answer["aggregates"]
        ]


def hosts(nova: Nova) -> model.Hosts:
    """Every compute service and every hypervisor.

    Cost: one request, and one per 1000 hypervisors. Where a cell is down nova refuses the
    page that would reach it: ten requests more find the nodes of the cells before it.
    Errors: as ``ask``; where no cell is down, also when a page is refused.
    """
    listed, tells_cells = _services(nova)
    unreachable = frozenset(item["host"] for item in listed if item["status"] == "UNKNOWN")
    return model.Hosts(
        nodes=tuple(_nodes(nova, excused=bool(unreachable))),
        services=frozenset(item["host"] for item in listed),
        unreachable=unreachable,
        tells_cells=tells_cells,
    )


def _services(nova: Nova) -> tuple[list[dict[str, Any]], bool]:
    """The compute services, and whether those of a cell that is down are among them."""
    path = "/os-services?binary=nova-compute"
    tells_cells = True
    try:
        answer = nova.ask(path, _SERVICES)
    except NovaRefused as error:
        if error.status != 406:
            raise
        tells_cells = False
        answer = ask_or_unsupported(nova, path, _HYPERVISORS)
    with parsing(path):
        found = [
            {"host": item["host"], "status": item["status"]}
            for item in answer["services"]
            if item["binary"] == "nova-compute"
        ]
    return found, tells_cells


def _nodes(nova: Nova, *, excused: bool) -> list[model.ComputeNode]:
    """The hypervisors that nova can list; ``excused``: a page may be refused."""
    found: list[model.ComputeNode] = []
    limit, more, refused = _PAGE, True, False
    while limit and more:
        try:
            page, more = _page(nova, limit, found)
            found += page
        except NovaRefused as error:
            if not excused or error.status < 500:
                raise
            refused = True
        # Once refused, what can be had is less than that page: the next ones halve it.
        limit = _halved(limit) if refused else limit
    return found


def _halved(limit: int) -> int:
    """The next smaller power of two; 0 after 1."""
    return (1 << (limit - 1).bit_length()) >> 1 if limit > 1 else 0


def _page(
    nova: Nova, limit: int, before: list[model.ComputeNode]
) -> tuple[list[model.ComputeNode], bool]:
    """The hypervisors that follow those ``before``, and whether nova says that there are more."""
    query = {"limit": str(limit)}
    if before:
        query["marker"] = before[-1].uuid
    path = f"/os-hypervisors/detail?{urllib.parse.urlencode(query)}"
    answer = ask_or_unsupported(nova, path, _HYPERVISORS)
    with parsing(path):
        page = [
            model.ComputeNode(item["id"], item["hypervisor_hostname"], item["service"]["host"])
            for item in answer["hypervisors"]
        ]
        links = answer.get("hypervisors_links") or ()
        more = bool(page) and any(link["rel"] == "next" for link in links)
    return page, more


def ask_or_unsupported(nova: Nova, path: str, version: str) -> Any:
    """One answer. Errors: as ``ask``, and PlacementError when nova is too old."""
    try:
        return nova.ask(path, version)
    except NovaRefused as error:
        if error.status != 406:
            raise
        raise errors.PlacementError(
            f"this nova is too old: compute API {version} is needed to ask {path}"
        ) from error


@contextlib.contextmanager
def parsing(path: str) -> Iterator[None]:
    """Turn what is missing in an answer into a PlacementError."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise errors.PlacementError(
            f"nova's answer to GET {path} lacks what every nova tells since Pike: {error!r}"
        ) from error


def _reason(answer: Any) -> str:
    """The message in nova's error body, or whatever came instead."""
    try:
        messages: Iterator[str] = (
            " ".join(str(fault["message"]).split()) for fault in answer.json().values()
        )
        return next(messages)
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration):
        return str(answer.reason or "an answer that is not nova's")
