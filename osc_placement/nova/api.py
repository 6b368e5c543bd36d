# SPDX-License-Identifier: Apache-2.0
"""Sends GET requests to nova's compute API, or finds the responses in a recording.

It also reads host aggregates, server groups and availability zones. The module ``servers`` reads
servers, migrations, services and compute nodes; ``flavors`` reads flavors.
"""

from __future__ import annotations

import contextlib
import datetime
import email.utils
import json
import logging
import pathlib
import re
import urllib.parse
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from osc_placement import errors
from osc_placement.client import api_errors, service, transport
from osc_placement.model import json_text, recording
from osc_placement.nova import values

LOG = logging.getLogger(__name__)

T = TypeVar("T")

#: Compute API microversions. 2.41 adds the UUID of a host aggregate; 2.64 has the policy of a
#: server group as one value.
_AGGREGATES_VERSION = "2.41"
_SERVER_GROUPS_VERSION = "2.64"

_NO_OFFSET = datetime.timedelta()

#: Entries per request: nova's own default limit.
PAGE = 1000

#: ``{status of a version document that is not shown: what is not known then}``
_NOT_SHOWN = {
    403: "nova refuses to show its version (HTTP 403)",
    404: "nova shows no version",
}

_NUMBER = re.compile(r"\d+\.\d+")
_URL_VERSION = re.compile(r"/v2(\.\d+)?(?=/)")

#: The key of what a recording has of the login: the services of the catalog, and the time.
LOGIN = "GET /v3/auth/tokens"

#: Compute API microversion of zones.
_ZONES_VERSION = "2.1"


class Nova(Protocol):
    """``ask("/os-aggregates", "2.41")`` is the parsed JSON of that GET.

    ``source`` names a recording; it is empty for a cloud.
    """

    @property
    def source(self) -> str: ...

    def ask(self, path: str, version: str) -> Any:
        """Send one GET. Errors: NovaRefused; PlacementError when nova cannot be reached."""


@runtime_checkable
class Login(Protocol):
    """What else a login, or its recording, shows of the cloud."""

    def service_types(self) -> frozenset[str]: ...

    def clock_offset(self) -> datetime.timedelta: ...


class NovaRefused(service.ServiceRefused):
    """Nova answered with an error status."""

    service = "nova"


class NovaHides(NovaRefused):
    """Nova leaves a field out, without an error, because a policy rule does not show it."""

    def __init__(self, hidden: str, url: str) -> None:
        super().__init__(403, hidden, url=url)
        self._hidden = hidden

    def __str__(self) -> str:
        return self._hidden


class SessionNova:
    """Nova over an openstacksdk connection."""

    source = ""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._clock_offset: datetime.timedelta | None = None
        #: Within ``answers.reading_once()`` no request is sent twice.
        self.answers = transport.Answers(repeats=False)

    def clock_offset(self) -> datetime.timedelta:
        """How far this machine's clock is ahead of nova's.

        Requests: one GET if none was sent before.
        """
        if self._clock_offset is None:
            self.ask("/servers?limit=1", _AGGREGATES_VERSION)
        return self._clock_offset or _NO_OFFSET

    def ask(self, path: str, version: str) -> Any:
        """Send one GET at a microversion."""
        if path.startswith("/servers"):
            # Not among ``answers``: no two workflows read them, and they need most of the memory.
            return self._send(path, version)
        return self.answers.of((path, version), lambda: self._send(path, version))

    def _send(self, path: str, version: str) -> Any:
        answer, headers = service.send(
            *(self.connection, "compute", "GET", path, NovaRefused),
            microversion=version,
            skip_cache=True,
        )
        if self._clock_offset is None:
            self._clock_offset = _clock_offset_of(headers)
        return answer

    def service_types(self) -> frozenset[str]:
        """The service types in the catalog. Errors: NotKnown."""
        try:
            return frozenset(str(entry["type"]) for entry in self.connection.service_catalog)
        except Exception as error:  # Each method of authentication has errors of its own.
            raise errors.NotKnown("this login has no catalog of the cloud's services") from error


def has_endpoint(connection: Any) -> bool:
    """Whether an openstacksdk connection has an endpoint of nova: in the catalog, or configured.

    A connection without a catalog sends every request to its one endpoint, Placement's.
    Requests: an authentication, if none was sent before; none to nova.
    """
    config = connection.config
    if any(config.config.get(f"compute_{name}") for name in ("endpoint_override", "endpoint")):
        return True
    try:
        return config.get_endpoint_from_catalog("compute") is not None
    except Exception:  # noqa: BLE001 - each method of authentication has errors of its own
        # Not every authentication has a catalog. A request to nova shows the error of the others.
        return True


def _clock_offset_of(headers: Mapping[str, str]) -> datetime.timedelta:
    """The offset from the Date header, to the second; zero without such a header."""
    try:
        date = email.utils.parsedate_to_datetime(headers["Date"])
        return datetime.datetime.now(datetime.UTC) - date
    except (LookupError, TypeError, ValueError):
        return _NO_OFFSET


def clock_offset(nova: Nova) -> datetime.timedelta:
    """How far this machine's clock is ahead of nova's; for a recording, of the time of its reading.

    Nova compares and filters its timestamps by its own clock.
    Requests: one GET if none was sent to nova before.
    """
    return nova.clock_offset() if isinstance(nova, Login) else _NO_OFFSET


def service_types(nova: Nova) -> frozenset[str]:
    """The types of all services in the cloud's catalog. Requests: none. Errors: NotKnown."""
    if isinstance(nova, Login):
        return nova.service_types()
    raise errors.NotKnown("the services of the catalog were not read")


def recorded_login(nova: Nova) -> Any:
    """What a recording keeps of the login: the services of the catalog, and nova's time.

    Requests: those of ``clock_offset``. Errors: NotKnown.
    """
    now = datetime.datetime.now(datetime.UTC) - clock_offset(nova)
    catalog = [{"type": name} for name in sorted(service_types(nova))]
    return {"token": {"issued_at": now.isoformat(), "catalog": catalog}}


class NotRecorded(errors.NotKnown):
    """A recording has neither a response nor a reason."""


class RecordedNova:
    """Recorded responses of nova: ``{"GET /v2.1/os-aggregates": body}``.

    Of the recordings of a path, the one that shares most query parameters with the request
    is used. Its parameters must be a subset of the request's, and both or neither must ask
    for deleted servers.
    """

    def __init__(self, recorded: Mapping[str, Any], source: str) -> None:
        self._requests = [
            (*_split(_URL_VERSION.sub("", key.removeprefix("GET "))), key) for key in recorded
        ]
        self.source = source
        self._images: dict[str, Mapping[str, Any]] = {}
        #: The whole recording, responses of other services included.
        self.recorded = recorded

    def service_types(self) -> frozenset[str]:
        """The service types in the recorded catalog. Errors: NotKnown."""
        if LOGIN not in self.recorded:
            raise errors.NotKnown(f"{self.source} does not have the services of the catalog")
        login = recording.known(self.recorded[LOGIN])
        with parsing(LOGIN):
            return frozenset(str(item["type"]) for item in login["token"]["catalog"])

    def clock_offset(self) -> datetime.timedelta:
        """How long ago the recording was made; zero if it does not say it."""
        with parsing(LOGIN):
            login = self.recorded.get(LOGIN, recording.NO_REASON)
            issued = None if recording.is_reason(login) else login["token"].get("issued_at")
            if issued is None:
                return _NO_OFFSET
            return datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(issued)

    def ask(self, path: str, version: str) -> Any:
        """Send no request; find the recorded response."""
        key = self.key_of(path)
        if key is None:
            raise NotRecorded(f"{self.source} holds no response to GET {path}")
        return recording.known(self.recorded[key])

    def images_by_id(self, path: str) -> Mapping[str, Any]:
        """The images of a recorded list, which is parsed once. Errors: as ``ask``."""
        if path not in self._images:
            with service.parsing("glance", "/images"):
                self._images[path] = {item["id"]: item for item in self.ask(path, "2")["images"]}
        return self._images[path]

    def key_of(self, path: str) -> str | None:
        """The key of the recorded response to a request; None if it was not recorded."""
        requested_path, query = _split(path)
        fitting = [
            (len(parameters), key)
            for recorded_path, parameters, key in self._requests
            if recorded_path == requested_path
            and parameters <= query
            and _DELETED & parameters == _DELETED & query
        ]
        return max(fitting, key=lambda entry: entry[0])[1] if fitting else None


def can_answer(nova: Nova, path: str) -> bool:
    """Whether nova can be asked for a path: a cloud, or a recording with the answer or a reason."""
    return not nova.source or (isinstance(nova, RecordedNova) and nova.key_of(path) is not None)


#: The query parameter that switches between deleted servers and all others.
_DELETED = frozenset({("deleted", "true")})


def _split(url: str) -> tuple[str, frozenset[tuple[str, str]]]:
    """``(path, {(parameter, value)})``."""
    path, _, query = url.partition("?")
    return path, frozenset(urllib.parse.parse_qsl(query))


def read_recording(path: pathlib.Path) -> RecordedNova:
    """Recorded responses from a JSON file, which is parsed response by response.

    Errors: PlacementError, which names the file.
    """
    import ijson

    try:
        json_text.check_file(path)
        with path.open("rb") as file:
            limited = json_text.LimitedFile(file, str(path))
            responses = ijson.kvitems(limited, "", use_float=True)
            recorded = recording.CompressedResponses(
                (request, json.dumps(body, ensure_ascii=False).encode())
                for request, body in responses
            )
    except json_text.NotJson as error:
        raise errors.PlacementError(f"cannot read the nova recording {error}") from error
    except (OSError, ValueError, ijson.JSONError) as error:
        reason = " ".join(str(error).split())
        raise errors.PlacementError(f"cannot read the nova recording {path}: {reason}") from error
    if not recorded:
        raise errors.PlacementError(f'{path} is not an object of the form {{"GET /path": body}}')
    return RecordedNova(recorded, str(path))


def availability_zones(nova: Nova) -> list[str]:
    """Nova's availability zones with hosts, and the name of its default zone.

    A recording may have only those of the host aggregates. Requests: one. Errors: as ``ask``.
    """
    path = "/os-availability-zone"
    try:
        body = ask_or_unsupported(nova, path, _ZONES_VERSION)
    except errors.NotKnown:
        return [values.DEFAULT_ZONE]
    with parsing(path):
        return [values.DEFAULT_ZONE, *(zone["zoneName"] for zone in body["availabilityZoneInfo"])]


def maximum_version(nova: Nova) -> str:
    """The maximum of the compute API, such as "2.100".

    A recording may have no version document, and something in front of nova may not pass it on.
    Requests: one GET. Errors: NotKnown if nova does not show it; as ``ask``, for any other reason.
    """
    try:
        body = nova.ask("/", "2.1")
    except (NovaRefused, api_errors.UnexpectedResponse, errors.NotKnown) as error:
        reason = _NOT_SHOWN.get(getattr(error, "status", 404))
        if reason is None:
            raise
        raise errors.NotKnown(reason) from error
    with parsing("/"):
        version = body["version"].get("version")
    if isinstance(version, str) and _NUMBER.fullmatch(version):
        return version
    raise errors.NotKnown(_NOT_SHOWN[404])


def host_aggregate_uuids(nova: Nova) -> list[str] | None:
    """The UUIDs of nova's host aggregates; None if they cannot be read. Requests: one GET."""
    try:
        return [item.uuid for item in host_aggregates(nova)]
    except errors.PlacementError:
        return None


def host_aggregates(nova: Nova) -> list[values.HostAggregate]:
    """Every host aggregate with its hosts, in the order of their ids. Requests: one GET.

    Errors: as ``ask``; PlacementError when nova is older than 2.41.
    """
    body = ask_or_unsupported(nova, "/os-aggregates", _AGGREGATES_VERSION)
    with parsing("/os-aggregates"):
        return [
            service.checked(
                values.HostAggregate(
                    str(item["id"]),
                    item["name"],
                    item["uuid"],
                    tuple(item.get("hosts") or ()),
                    item.get("metadata") or {},
                )
            )
            for item in body["aggregates"]
        ]


def server_groups(nova: Nova) -> list[values.ServerGroup]:
    """Every server group of every project, by pages of at most 1000 groups.

    Nova's ``[api]max_limit`` can be lower than 1000, and a page of groups has no link to the next
    one. So only a page without new groups ends the listing.

    Requests: one GET for each page, and one more. Errors: as ``ask``; PlacementError when nova is
    older than 2.64.
    """
    groups: dict[str, values.ServerGroup] = {}
    while True:
        path = f"/os-server-groups?all_projects=True&limit={PAGE}&offset={len(groups)}"
        body = ask_or_unsupported(nova, path, _SERVER_GROUPS_VERSION)
        with parsing(path):
            page = {
                item["id"]: service.checked(
                    values.ServerGroup(
                        item["id"],
                        item["name"],
                        item["policy"],
                        tuple(item["members"]),
                        int((item.get("rules") or {}).get("max_server_per_host", 1)),
                    )
                )
                for item in body["server_groups"]
            }
        if page.keys() <= groups.keys():
            return list(groups.values())
        groups |= page


def ask_or_unsupported(nova: Nova, path: str, version: str) -> Any:
    """The parsed JSON of one GET. Errors: as ``ask``; PlacementError when nova is too old."""
    return ask_best(nova, path, (version,))[0]


def parsing(path: str) -> contextlib.AbstractContextManager[None]:
    """Turn a missing or malformed field of nova's response into a PlacementError."""
    return service.parsing(NovaRefused.service, path)


def read_pages(
    nova: Nova,
    path: str,
    versions: Sequence[str],
    query: Mapping[str, str],
    key: str,
    read: Callable[[Any], T],
) -> list[T]:
    """``read(item)`` for each item of all pages of a listing, in nova's order.

    ``versions`` are compute API versions, the preferred one first; ``key`` is the field of the
    response that holds the items, and ``{key}_links`` the link to the next page.
    Requests: one GET per 1000 items. Errors: as ``ask``; PlacementError when nova is older than
    the last version, or when an item lacks a field.
    """
    results: list[T] = []

    def ask(marker: Mapping[str, str]) -> tuple[str, Any]:
        nonlocal versions
        url = f"{path}?{urllib.parse.urlencode({**query, 'limit': str(PAGE), **marker})}"
        body, version = ask_best(nova, url, versions)
        versions = (version,)
        return url, body

    for url, items in service.pages(NovaRefused.service, key, ask):
        with parsing(url):
            results += map(service.checked, map(read, items))
    return results


#: Nova 29 before 29.4 answers 500 to it if one listed server has no request spec.
_BROKEN = "2.96"


def ask_best(nova: Nova, path: str, versions: Sequence[str]) -> tuple[Any, str]:
    """The response at the first version that this nova supports, and that version.

    Errors: as ``ask``; PlacementError when nova is older than the last version.
    """
    for version in versions:
        try:
            return nova.ask(path, version), version
        except NovaRefused as error:
            if error.status != 406 and (error.status, version) != (500, _BROKEN):
                raise
    raise errors.PlacementError(
        f"this nova is too old: GET {path} needs compute API {versions[-1]}"
    )


#: ``{field: policy rule}``: nova leaves out a field of a server or of a flavor, without an error,
#: when the rule refuses it. A missing field must not be read as "on no host".
HIDDEN_BY = {
    "OS-EXT-SRV-ATTR:host": "os_compute_api:os-extended-server-attributes",
    "extra_specs": "os_compute_api:os-flavor-extra-specs:index",
}


def why_hidden(present: Collection[str], field: str) -> str:
    """Why an item lacks a field; empty if it has it."""
    shows = f"the policy rule {HIDDEN_BY[field]} shows it"
    return "" if field in present else f"nova hides {field}; {shows}"


def check_shown(present: Collection[str], url: str, field: str) -> None:
    """Refuse an item without a field. Errors: NovaHides."""
    if text := why_hidden(present, field):
        raise NovaHides(text, url)


@contextlib.contextmanager
def collected(input_errors: errors.InputErrors) -> Iterator[None]:
    """Turn a request of the block that a policy refuses (403) into one of ``input_errors``.

    So an operator sees all missing permissions at once.
    """
    try:
        yield
    except errors.PlacementError as error:
        if getattr(error, "status", None) != 403:
            raise
        input_errors.add(missing(error))


def missing(error: errors.PlacementError) -> str:
    """The message for a request that a policy refused, the same for all requests of a service.

    The log at -v has the request and its rule.
    """
    # Also of a refusal that a recording has.
    if name := getattr(error, "service", None):
        return service.missing_right(name)
    LOG.info("placement refuses a request: %s", error)
    return service.missing_right("placement", "the role admin or service")
