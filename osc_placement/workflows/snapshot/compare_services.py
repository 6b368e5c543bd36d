# SPDX-License-Identifier: Apache-2.0
"""Sends logged queries to two services, to compare their answers and times.

Only ``compare`` sends requests, all of them GET /allocation_candidates. The queries keep their
limit, so that the times are those of the queries that users send.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import urllib.parse
from collections.abc import Sequence

from osc_placement import errors, microversion
from osc_placement.client import api, api_errors, retry
from osc_placement.workflows.cloud import logs
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.snapshot import replay

#: The parameters without their suffix, the longest first.
_PARAMETERS: Sequence[str] = (
    *("same_subtree", "root_required", "group_policy", "resources", "member_of"),
    *("required", "in_tree", "limit"),
)
_LIMIT = "limit"
_PORTS = {"http": 80, "https": 443}


def compared(
    query: logs.Query, before: replay.QueryAnswer, after: replay.QueryAnswer
) -> replay.QueryComparison:
    """The answers of both services to a query with its limit."""
    limits = {value for name, value in urllib.parse.parse_qsl(query.text) if name == _LIMIT}
    sizes = {str(len(side.candidates)) for side in (before, after)}
    return replay.QueryComparison(query, before, after, sizes == limits)


@dataclasses.dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds: the median, the 95th percentile, and the worst; None without any answer."""

    median: float | None = None
    percentile: float | None = None
    worst: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ShapeComparison:
    """All queries of one shape: equal parameters and classes, with any amounts and names."""

    shape: str
    comparisons: Sequence[replay.QueryComparison]

    @property
    def before(self) -> Times:
        """The times of the first service, each as often as the log has the query."""
        return _times([(item.before.seconds, item.query.count) for item in self.comparisons])

    @property
    def after(self) -> Times:
        """The times of the second service."""
        return _times([(item.after.seconds, item.query.count) for item in self.comparisons])

    @property
    def slower_percent(self) -> float:
        """How much longer the median of the second service is; 0 without times."""
        before, after = self.before.median, self.after.median
        return 100 * (after - before) / before if before and after else 0.0


def _times(answers: Sequence[tuple[float | None, int]]) -> Times:
    """The times of ``(seconds, how often)``: of each rank, the time that it has."""
    counted = sorted((seconds, count) for seconds, count in answers if seconds is not None)
    if not counted:
        return Times()
    total = sum(count for _, count in counted)

    def at(part: float) -> float:
        rank = math.ceil(part * total)
        for seconds, count in counted:
            rank -= count
            if rank <= 0:
                return round(1000 * seconds, 1)
        raise AssertionError(part)

    return Times(at(0.5), at(0.95), at(1))


def shape_of(text: str) -> str:
    """``required resources=MEMORY_MB,VCPU resources=PGPU x8``, without suffixes and the limit."""
    parts: collections.Counter[str] = collections.Counter()
    for name, value in urllib.parse.parse_qsl(text):
        parameter = next((item for item in _PARAMETERS if name.startswith(item)), name)
        if parameter == "resources":
            classes = sorted(part.partition(":")[0] for part in value.split(","))
            parameter = f"resources={','.join(classes)}"
        if parameter != _LIMIT:
            parts[parameter] += 1
    return " ".join(
        f"{part} x{count}" if count > 1 else part for part, count in sorted(parts.items())
    )


def check_different(one: str, other: str) -> None:
    """Refuse a URL that is no URL, or that of the same service. Errors: InvalidInput."""
    parts = urllib.parse.urlsplit(other)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise errors.InvalidInput([f"--against {other!r} is not the URL of a Placement service"])
    if _normal(one) == _normal(other):
        raise errors.InvalidInput(
            [f"--against {other}: the queries would be sent to the same service twice"]
        )


def _normal(url: str) -> tuple[str, str | None, int | None, str]:
    """What two URLs of one endpoint have in common. Errors: InvalidInput for a wrong port."""
    parts = urllib.parse.urlsplit(url)
    try:
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        raise errors.InvalidInput([f"{url!r} has no valid port"]) from None
    return parts.scheme, parts.hostname, port, parts.path.rstrip("/")


def compare(
    before: api.Client, after: api.Client, source: logs.QuerySource, context: ReadContext
) -> list[ShapeComparison]:
    """The queries on both services, by shape; those that take longest on the second one first.

    Requests: for each different query one GET to each service, repeated while it fails; the version
    document of both. The time is that of the last one.
    Errors: those of the version documents; a refused query is an answer.
    """
    shared = min(before.negotiated, after.negotiated)

    def ask(query: logs.Query) -> replay.QueryComparison:
        return compared(query, _ask(before, query, shared), _ask(after, query, shared))

    shapes: dict[str, list[replay.QueryComparison]] = {}
    for item in context.each(ask, source.queries, "replaying queries"):
        shapes.setdefault(shape_of(item.query.text), []).append(item)
    by_shape = [ShapeComparison(shape, items) for shape, items in shapes.items()]
    return sorted(by_shape, key=lambda item: -(item.after.worst or 0))


def _ask(
    client: api.Client, query: logs.Query, shared: microversion.Microversion
) -> replay.QueryAnswer:
    """One query with its own microversion, or the highest that both services have."""
    version = microversion.Microversion.parse(query.version) if query.version else shared
    url = f"/allocation_candidates?{query.text}"
    try:
        response = retry.read(lambda: client.transport.send("GET", url, version=version))
        candidates = replay.candidates(response.body)
    except api_errors.TimedOut as error:
        return replay.QueryAnswer(error=str(error))
    except api_errors.ApiError as error:
        return replay.QueryAnswer(error=error.detail)
    except (LookupError, TypeError) as error:
        raise errors.PlacementError(
            f"{client.target} does not answer GET /allocation_candidates as Placement"
        ) from error
    return replay.QueryAnswer(candidates, seconds=response.seconds)
