"""A transport that tests watch, and make trouble with."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from osc_placement.client import transport


class Watched:
    """A transport that counts, and does to a request what a test orders."""

    def __init__(self, real: transport.Transport) -> None:
        self._real = real
        self.sent: list[str] = []
        self.before: Callable[[str, Any], None] = lambda request, body: None
        self.after: Callable[[str, Any], None] = lambda request, body: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def send(self, method: str, url: str, *, version: Any = None, body: Any = None) -> Any:
        request = f"{method} {url}"
        self.sent.append(f"{method} /{url.partition('?')[0].split('/')[1]}")
        self.before(request, body)
        answer = self._real.send(method, url, version=version, body=body)
        self.after(request, body)
        return answer

    def count(self) -> dict[str, int]:
        return dict(collections.Counter(self.sent))
