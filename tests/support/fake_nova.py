# SPDX-License-Identifier: Apache-2.0
"""A compute API on 127.0.0.1 with recorded responses, in pages like nova's."""

from __future__ import annotations

import json
import threading
import urllib.parse
from collections.abc import Iterable
from typing import Any

from waitress import server

PAGE = 4


class Nova:
    """``answers`` has the form of ``osc_placement.testing.sample_nova`` and may be changed.

    ``unreachable`` are hosts whose cell is down: their services are stubs, and a page of
    hypervisors that reaches beyond the other cells fails.
    """

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.unreachable: list[str] = []
        self.forbidden: set[str] = set()
        self.requests: list[str] = []
        self._server = server.create_server(self._call, host="127.0.0.1", port=0, threads=2)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The endpoint, as in a catalog."""
        return f"http://127.0.0.1:{self._server.effective_port}/v2.1"

    def stop(self) -> None:
        self._server.close()
        self._server.task_dispatcher.shutdown()

    def _call(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path, query = environ["PATH_INFO"], dict(urllib.parse.parse_qsl(environ["QUERY_STRING"]))
        status, body = self._answer(path, query, environ.get("HTTP_OPENSTACK_API_VERSION", ""))
        start_response(status, [("content-type", "application/json")])
        return [json.dumps(body).encode()]

    def _answer(self, path: str, query: dict[str, str], version: str) -> tuple[str, Any]:
        if path in ("/v2.1", "/v2.1/"):
            return "200 OK", {"version": self._version()}
        self.requests.append(f"{path.removeprefix('/v2.1')} {version.removeprefix('compute ')}")
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

    def _version(self) -> dict[str, Any]:
        links = [{"rel": "self", "href": self.url}]
        known = {"version": "2.104", "min_version": "2.1", "status": "CURRENT"}
        return {"id": "v2.1", "links": links, **known}

    def _page(self, hypervisors: list[Any], query: dict[str, str]) -> tuple[str, Any]:
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
