# SPDX-License-Identifier: Apache-2.0
"""Sends a request to two servers and describes the difference of their responses."""

from __future__ import annotations

import dataclasses
import http.client
import json
import re
import urllib.parse
from typing import Any

from tests.support.sequences import generate

HEADERS = (
    "content-type",
    "allow",
    "cache-control",
    "vary",
    "openstack-api-version",
    "www-authenticate",
)
_SQL = re.compile(r"Update conflict: .*", re.DOTALL)
#: Several names in one text are in hash order.
_NAMES = re.compile(
    r"(?<=Inventory for ')[^']+(?=')|(?<=on resource provider ')[^']+(?=')"
    r"|(?<=No such trait )[A-Za-z_, ]+(?=  $)"
    r"|(?<=bad group\(s\) - \[)[^]]+|(?<=in `same_subtree`: \[)[^]]+"
)
#: One of several unknown traits is named, by hash order.
_TRAIT = re.compile(r"(?<=No such trait\(s\): )[^.]*")
_BECOMES_ROOT = b'"parent_provider_uuid": null'


def _sorted_names(match: re.Match[str]) -> str:
    return ", ".join(sorted(match[0].split(", ")))


@dataclasses.dataclass(frozen=True)
class Answer:
    """The parts of a response that must be equal."""

    status: int
    headers: tuple[tuple[str, str | None], ...]
    body: Any


class Server:
    """One connection to a server."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)

    def __call__(self, request: generate.Request) -> Answer:
        headers = request.sent_headers
        self._connection.request(request.method, request.path, request.body, headers)
        response = self._connection.getresponse()
        return read(response.status, response.headers, response.read())

    def close(self) -> None:
        self._connection.close()


def read(status: int, headers: Any, body: bytes) -> Answer:
    """A response without variable parts: ids, dates, the order of sets, SQL in texts."""
    shown: list[tuple[str, str | None]] = [(name, headers.get(name)) for name in HEADERS]
    shown.append(("last-modified", "there" if headers.get("last-modified") else None))
    location = headers.get("location")
    shown.append(("location", location and urllib.parse.urlsplit(location).path))
    document: Any = body.decode(errors="replace")
    if (headers.get("content-type") or "").startswith("application/json") and body:
        document = _normal(json.loads(body))
    return Answer(status, tuple(shown), document)


def _text(document: Any) -> str:
    return json.dumps(document, sort_keys=True)


def _normal(document: Any) -> Any:
    if isinstance(document, dict):
        if isinstance(document.get("mappings"), dict):
            document["mappings"] = {
                suffix: sorted(uuids) for suffix, uuids in document["mappings"].items()
            }
        return {
            key: _normal_value(key, value) for key, value in document.items() if key != "request_id"
        }
    if isinstance(document, list):
        return [_normal(member) for member in document]
    return document


def _normal_value(key: str, value: Any) -> Any:
    if key in ("traits", "aggregates") and isinstance(value, list):
        return sorted(value)
    if key in ("resource_providers", "resource_classes", "allocation_requests"):
        return sorted((_normal(member) for member in value), key=_text)
    if key == "allocations" and isinstance(value, list):
        return sorted((_normal(member) for member in value), key=_text)
    if key == "detail":
        return _NAMES.sub(_sorted_names, _TRAIT.sub("…", _SQL.sub("Update conflict:", value)))
    return _normal(value)


def _renamed_child(real: Answer, ours: Answer, body: bytes) -> bool:
    """The real service sends no date after the first renaming of a child: see Conformance.

    The ``body`` of a renaming that also makes the child a root has a null as parent.
    """
    if not isinstance(real.body, dict) or real.body != ours.body:
        return False
    was_child = real.body.get("parent_provider_uuid") or _BECOMES_ROOT in body
    return bool(was_child and ("last-modified", None) in real.headers)


def difference(real: Answer, ours: Answer, body: bytes | None = None) -> str:
    """The difference of two responses to a body in a few lines; empty if they are equal."""
    lines = []
    if real.status != ours.status:
        lines.append(f"status {real.status} != {ours.status}")
    lines += [
        f"{name}: {value!r} != {other!r}"
        for (name, value), (_, other) in zip(real.headers, ours.headers, strict=True)
        if value != other
        and not (name == "last-modified" and _renamed_child(real, ours, body or b""))
    ]
    if real.body != ours.body:
        lines.append(f"body\n  real {json.dumps(real.body)}\n  ours {json.dumps(ours.body)}")
    return "\n".join(lines)
