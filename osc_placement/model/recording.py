# SPDX-License-Identifier: Apache-2.0
"""Recorded responses of other services, kept compressed: 100,000 servers take 10 MB.

In place of a response that could not be read, a recording has the reason.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from osc_placement import errors

#: The fastest level: it makes a page of servers fifteen times smaller.
_LEVEL = 1


class CompressedResponses(Mapping[str, Any]):
    """``{"GET /path": body}``; each access parses a body again.

    ``responses`` are pairs of a request and the JSON of its response.
    """

    def __init__(self, responses: Iterable[tuple[str, bytes]]) -> None:
        self._bodies = {request: zlib.compress(body, _LEVEL) for request, body in responses}

    def __getitem__(self, request: str) -> Any:
        return json.loads(zlib.decompress(self._bodies[request]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._bodies)

    def __len__(self) -> int:
        return len(self._bodies)


_NOT_KNOWN = "not known"

#: What stands for a response that is not in the recording.
NO_REASON: Mapping[str, str] = {_NOT_KNOWN: ""}


class NotRead(errors.NotKnown):
    """A response that could not be read when the recording was made.

    ``service`` and ``status`` are those of a refusal, None otherwise.
    """

    def __init__(self, reason: str, service: str | None, status: int | None) -> None:
        super().__init__(reason)
        self.service, self.status = service, status


def keep_or_reason(keep: Callable[[str, Any], None], key: str, read: Callable[[], Any]) -> None:
    """Keep a response, or why it cannot be read."""
    try:
        keep(key, read())
    except errors.PlacementError as error:
        refusal = {name: getattr(error, name, None) for name in ("service", "status")}
        keep(key, {_NOT_KNOWN: str(error), **refusal})


def is_reason(body: Any) -> bool:
    """Whether a recording has a reason in place of this response; not for another type."""
    keys: Any = body.keys()
    return _NOT_KNOWN in keys


def known(body: Any) -> Any:
    """A recorded response. Errors: NotKnown with the reason for one that could not be read."""
    if isinstance(body, dict) and is_reason(body):
        raise NotRead(str(body[_NOT_KNOWN]), body.get("service"), body.get("status"))
    return body
