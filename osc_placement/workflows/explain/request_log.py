# SPDX-License-Identifier: Apache-2.0
"""What the logs of nova 27 to 34 and of Placement have of one request. ``read`` reads files."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from osc_placement import errors
from osc_placement.client import query as queries
from osc_placement.model.name import counted
from osc_placement.workflows.cloud import logs


class FilterStep(NamedTuple):
    """A filter of nova's scheduler, with the numbers of hosts that it got and that it left."""

    name: str
    start: int
    end: int


class BuildError(NamedTuple):
    """Why a build failed; ``host`` is empty if the source does not say it."""

    text: str
    host: str = ""


@dataclasses.dataclass(slots=True)
class RequestLog:
    """What was found of a request: Placement's queries, the filters of the scheduler's last search.

    ``has_no_candidates``: the scheduler says that Placement returned none. ``without`` are
    sentences about files without the request.
    """

    request_id: str
    queries: dict[object, logs.Query] = dataclasses.field(default_factory=dict)
    filters: list[FilterStep] = dataclasses.field(default_factory=list)
    build_errors: dict[BuildError, None] = dataclasses.field(default_factory=dict)
    has_no_candidates: bool = False
    without: list[str] = dataclasses.field(default_factory=list)
    _left: int = 0

    @property
    def missing(self) -> Iterator[str]:
        """What no log has, where it is, and which option turns it on."""
        if self.request_id and not self.queries:
            yield (
                "the query to Placement: Placement's own log has it (placement.requestlog, INFO),"
                " with the same request id"
            )
        if self.request_id and not self.filters and not self.has_no_candidates:
            yield (
                "nova's filters and their counts of hosts: nova-scheduler's log has them; those of"
                " a search that finds a host only with debug = True in [DEFAULT] of its nova.conf"
            )
        yield from self.without

    def add(self, line: str) -> None:
        """Add a line of the request."""
        self.has_no_candidates |= _NO_CANDIDATES in line
        if query := logs.logged_query(line):
            self.queries.setdefault(tuple(sorted(queries.parse(query.text))), query)
        if start := _START.search(line):
            self.filters, self._left = [], int(start[1])
        elif results := _RESULT.findall(line):
            self.filters = [FilterStep(name, int(start), int(end)) for name, start, end in results]
        elif step := _FILTER.search(line):
            # A log that begins within the search does not have the first number.
            start_of_step, self._left = self._left or int(step[2]), int(step[2])
            self.filters.append(FilterStep(step[1], start_of_step, self._left))
        elif error := _LAST_HOST.search(line) or _OF_COMPUTE.search(line[:_LONGEST]):
            # Of nova-conductor's traceback, a list of Python, the last exception.
            text = re.split(r"""['"], ['"]""", error["text"])[-1].rstrip("]'\"")
            text = _WORDS.sub("", text[:_LONGEST].removesuffix("\\n"))
            self.build_errors[BuildError(text, error.groupdict().get("host", ""))] = None


def read(paths: Sequence[pathlib.Path], request_id: str) -> RequestLog:
    """What the files have of a request. Errors: PlacementError if no file has a line of it."""
    log = RequestLog(request_id)
    is_of_request = re.compile(rf"(?<![\w-]){re.escape(request_id)}(?![\w-])").search
    for path in paths:
        times: list[str] = []
        count = own = 0
        for line in logs.lines(path):
            count += 1
            if time := _TIME.search(line, 0, 100):
                times[1:] = [time[0]]
            if request_id in line and is_of_request(line):
                own += 1
                log.add(line)
        if not own:
            when = f" from {times[0]} to {times[-1]}" if times else " without times"
            text = f"{path} has no line of {request_id}: {counted(count, 'line')}{when}"
            log.without.append(text if count else f"{path} is empty")
    if len(log.without) == len(paths):
        raise errors.PlacementError("\n".join(log.without))
    return log


#: When a line was written: oslo.log's form, and that of access logs.
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d|\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d")
_START = re.compile(r"Starting with (\d+) host")
_FILTER = re.compile(r"\bFilter (\w+) returned (\d+) host")
_RESULT = re.compile(r"'(\w+): \(start: (\d+), end: (\d+)\)'")
_NO_CANDIDATES = "Got no allocation candidates from the Placement API"
_LAST_HOST = re.compile(r"Error from last host: (?P<host>\S+) \(node (?P<text>.*)")
#: The longest text of an error.
_LONGEST = 2000
_OF_COMPUTE = re.compile(
    r" ERROR (?:nova\.(?:compute|virt|network)|os_\w+)\S* \[[^]]*\] "
    r"(?:\[instance: \S+\] )?(?P<text>.+)"
)
#: Around the cause: classes of exceptions, and nova's own words about the build.
_WORDS = re.compile(
    r"\b[\w.]*(?:Exception|Error|NotFound)\w*: "
    r"|Build of instance \S+ (?:was re-scheduled|aborted): "
)
