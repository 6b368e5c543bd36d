# SPDX-License-Identifier: Apache-2.0
"""Mutated requests: values of other types, extra bytes, unexpected headers."""

from __future__ import annotations

import json
import random
import urllib.parse
from typing import Any

from tests.support.sequences import generate

UUID = "000000a0-0000-4000-8000-000000000000"

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63, 2**200, 1e308, -0.0, 1.5),
    *(float("nan"), float("inf"), "", " ", "0", "a" * 300, "A" * 300, "é", "\x00", "\n", "\ud800"),
    *("\U0001f4a9", "{error}", "%s", "null", "in:", "!", "VCPU:1", UUID, UUID.upper(), UUID[:-1]),
    *(UUID.replace("-", ""), f"urn:uuid:{UUID}", f"{{{UUID}}}", [], {}, [[]], [{}], {"": ""}),
    *([UUID, UUID], {UUID: {}}, {"VCPU": 1}, [None], [1, True, 1.0], ["A"] * 100),
)

KEYS = (
    *("resources", "required", "member_of", "in_tree", "limit", "group_policy", "same_subtree"),
    *("resources1", "required1", "resources_A", "required_A", "member_of_A", "in_tree_A"),
    *("root_required", "name", "uuid", "project_id", "user_id", "consumer_type", "associated"),
    *("resources_", "resources-", "resources_" + "A" * 65, "", "é", "\x00", "[", "%", "resources0"),
)

TEXTS = (
    *("", " ", ",", ":", "!", "in:", "!in:", "in:,", "in:in:", "VCPU", "VCPU:", "VCPU:1:2", ":1"),
    *("VCPU:1,", ",VCPU:1", "VCPU:0", "VCPU:-1", "VCPU:1e3", "VCPU:\uff11", "VCPU:" + "9" * 5000),
    *(
        "VCPU:99999999999999999999",
        "VCPU:1",
        "VCPU:1,MEMORY_MB:1",
        "1",
        "0",
        "01",
        "\uff19",
        "1" * 5000,
    ),
    *("none", "isolate", "_A", "_A,_B", "_A,", "in:CUSTOM_A,CUSTOM_B", "!HW_CPU_X86_AVX2", "é"),
    *(
        "HW_CPU_X86_AVX2",
        "in:HW_CPU_X86_AVX2",
        UUID,
        f"in:{UUID},{UUID}",
        f"!{UUID}",
        f"!in:{UUID}",
    ),
    *("true", "startswith:", "startswith:é", "in:%00", "\x00", "\n", "\U0001f4a9", "{error}", "%s"),
)

HEADERS = (
    *("openstack-api-version", "accept", "content-type", "content-length", "x-roles", "host"),
    *("x-project-id", "openstack-system-scope", "x-auth-token", "transfer-encoding", "expect"),
    *("connection", "cookie", "x-forwarded-host", "range", "if-match", "if-modified-since", "x-é"),
)

HEADER_VALUES = (
    *("", " ", "*", "*/*", ";", ",", "application/json", "text/html", "text/*;q=0", "a/b;q=é"),
    *(
        "application/json; charset=latin-7",
        "application/json;q=x",
        "a" * 5000,
        "é",
        "\x01",
        "[",
        "::",
    ),
    *("placement 1.0", "placement 1.39", "placement 1.40", "placement latest", "placement", "1.39"),
    *("placement 1.39, placement 1.0", "compute 2.1", "placement " + "1" * 5000, "placement -1.é"),
    *(
        "0",
        "-1",
        "+1",
        "1_3",
        "chunked, chunked",
        "1e3",
        "chunked",
        "gzip",
        "100-continue",
        "close",
        "keep-alive",
        "all",
        "é:é",
    ),
    *("bytes=0-", '"', "Thu, 99 Foo 2026", "localhost", "[::1]:x", "a b", "a/b", "a:99999999"),
)


class Mutator:
    """Creates raw requests from valid ones; ``chance`` makes all choices."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def raw(self, request: generate.Request) -> bytes:
        """A request as bytes, mutated in zero or more places."""
        body = self._body(request.body)
        headers = [
            ("host", "localhost"),
            ("x-auth-token", "admin"),
            ("x-roles", "admin,service"),
            ("openstack-api-version", f"placement 1.{request.minor}"),
            *request.headers,
        ]
        if body is not None:
            headers += [("content-type", "application/json"), ("content-length", str(len(body)))]
        if self._now(0.2):
            headers.append((self._one_of(HEADERS), self._one_of(HEADER_VALUES)))
        if self._now(0.05):
            headers.pop(self._chance.randrange(len(headers)))
        method = self._one_of(("HEAD", "PATCH", "OPTIONS", "get", "é")) if self._now(0.03) else ""
        lines = [f"{method or request.method} {self._target(request.path)} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers]
        raw = "\r\n".join(lines).encode("utf-8", "surrogatepass") + b"\r\n\r\n" + (body or b"")
        return self._splice(raw) if self._now(0.1) else raw

    def _target(self, path: str) -> str:
        if self._now(0.1):
            cut = self._chance.randrange(len(path) + 1)
            path = path[:cut] + quote(self._one_of(TEXTS)) + path[cut:]
        if self._now(0.25):
            pairs = [self._pair() for _ in range(self._chance.randint(1, 4))]
            path += ("&" if "?" in path else "?") + "&".join(pairs)
        return path or "/"

    def _pair(self) -> str:
        value = quote(self._one_of(TEXTS))
        if self._now(0.1):
            value = self._one_of(("%ff", "%", "%zz", "+", "%00", "#", "%ed%a0%80"))
        return f"{quote(self._one_of(KEYS))}={value}"

    def _body(self, body: bytes | None) -> bytes | None:
        if body is None:
            return self._one_of((b"{}", b"[", b"\xff")) if self._now(0.03) else None
        if self._now(0.1):
            return self._splice(body)
        if self._now(0.4):
            try:
                document = self._mutated_document(json.loads(body))
                text = json.dumps(document, ensure_ascii=self._now(0.5))
                return text.encode("utf-8", "surrogatepass")
            except ValueError:
                return body
        return body

    def _mutated_document(self, value: Any) -> Any:
        """The document with one value, key or item replaced, duplicated or removed."""
        if not isinstance(value, dict | list) or not value or self._now(0.15):
            return self._one_of(VALUES)
        if isinstance(value, list):
            at = self._chance.randrange(len(value))
            return [*value[:at], self._mutated_document(value[at]), *value[at + self._now(0.8) :]]
        key = self._one_of(tuple(value))
        changed = dict(value)
        if self._now(0.1):
            del changed[key]
        elif self._now(0.1):
            changed[str(self._one_of(VALUES))] = changed.pop(key)
        else:
            changed[key] = self._mutated_document(value[key])
        return changed

    def _splice(self, raw: bytes) -> bytes:
        at, end = sorted(self._chance.randrange(len(raw) + 1) for _ in range(2))
        new = self._chance.randbytes(self._chance.randint(0, 4))
        return raw[:at] + new + raw[min(end, at + 4) :]

    def _now(self, share: float) -> bool:
        return self._chance.random() < share

    def _one_of(self, members: tuple[Any, ...]) -> Any:
        return self._chance.choice(members)


def quote(text: str) -> str:
    """Percent-encode, except the characters of the query syntax."""
    return urllib.parse.quote(text, safe=",:!{}", errors="surrogatepass")
