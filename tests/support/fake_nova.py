# SPDX-License-Identifier: Apache-2.0
"""A compute API on 127.0.0.1 with recorded responses, in pages like nova's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from osc_placement.testing import service

PAGE = 4


class Nova(service.RecordedServices):
    """``answers`` has the form of ``osc_placement.testing.sample_nova`` and may be changed.

    ``unreachable`` are hosts whose cell is down: their services are stubs, and a page of
    hypervisors that reaches beyond the other cells fails.
    """

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__(answers)
        self.answers = answers
        self.unreachable: list[str] = []
        self.forbidden: set[str] = set()
        #: The path and the microversion of each request.
        self.asked: list[str] = []
        self.start()

    @property
    def url(self) -> str:
        """The endpoint, as in a catalog."""
        return self.nova_url

    def answer(self, path: str, query: Mapping[str, str], version: str) -> tuple[str, Any]:
        self.asked.append(f"{path.removeprefix('/v2.1')} {version.removeprefix('compute ')}")
        if path.removeprefix("/v2.1") in self.forbidden:
            text = "Policy doesn't allow os_compute_api:os-aggregates:index to be performed."
            return "403 Forbidden", {"forbidden": {"code": 403, "message": text}}
        answer = self.answers[f"GET {path}"]
        if path.endswith("/os-hypervisors/detail"):
            return self._page(answer["hypervisors"], query)
        if path.endswith("/os-services"):
            stubs = [
                {"binary": "nova-compute", "host": host, "status": "UNKNOWN"}
                for host in self.unreachable
            ]
            return "200 OK", {"services": answer["services"] + stubs}
        return "200 OK", answer

    def _page(self, hypervisors: list[Any], query: Mapping[str, str]) -> tuple[str, Any]:
        ids = [item["id"] for item in hypervisors]
        start = ids.index(query["marker"]) + 1 if "marker" in query else 0
        limit = int(query["limit"])
        if self.unreachable and start + limit > len(ids):
            return "500 Internal Server Error", {
                "computeFault": {"message": "Unexpected API Error"}
            }
        page = hypervisors[start : start + min(limit, PAGE)]
        body: dict[str, Any] = {"hypervisors": page}
        if start + len(page) < len(ids):
            body["hypervisors_links"] = [{"rel": "next", "href": "http://elsewhere/"}]
        return "200 OK", body
