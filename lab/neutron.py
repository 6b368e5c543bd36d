# SPDX-License-Identifier: Apache-2.0
"""A substitute for neutron, and an empty glance: ``neutron.py PORT STATE.json ACCESS-LOG``.

It serves what nova-api needs to list servers and nova-manage to read and write ports. It
accepts any token.
"""

from __future__ import annotations

import http.server
import json
import pathlib
import sys
import threading
import time
import urllib.parse
from typing import Any

PORT, STATE, LOG = int(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
LOCK = threading.Lock()
KEYS = ("device_id", "id", "project_id", "tenant_id", "device_owner")

Answer = tuple[int, Any]


def versions(number: str, tail: str) -> Any:
    """A version document."""
    href = f"http://127.0.0.1:{PORT}{tail}"
    return {
        "versions": [{"id": number, "status": "CURRENT", "links": [{"rel": "self", "href": href}]}]
    }


def missing(what: str) -> Answer:
    """A 404 response with neutron's text."""
    kind = "PortNotFound" if "/ports/" in what else "NotFound"
    return 404, {"NeutronError": {"type": kind, "message": f"no {what}", "detail": ""}}


def ports(query: dict[str, list[str]]) -> Answer:
    """The ports that match a query."""
    ports = list(load()["ports"].values())
    for key in KEYS:
        if key in query:
            ports = [port for port in ports if port.get(key) in query[key]]
    if "fields" in query:
        ports = [{key: port[key] for key in query["fields"] if key in port} for port in ports]
    return 200, {"ports": ports}


def extensions() -> Answer:
    """The extensions in the state."""
    named = load().get("extensions", {})
    rest = {"description": "", "links": [], "updated": "2020-01-01T00:00:00-00:00"}
    return 200, {"extensions": [{"alias": a, "name": name, **rest} for a, name in named.items()]}


def load() -> Any:
    """Read the state; a reset changes the file."""
    return json.loads(STATE.read_text())


def get(path: str, query: dict[str, list[str]]) -> Answer:
    """The response to a GET request."""
    match path.strip("/").split("/"):
        case [""]:
            return 200, versions("v2.0", "/v2.0/")
        case ["v2.0"]:
            return 200, {"resources": []}
        case ["v2.0", "extensions"]:
            return extensions()
        case ["v2.0", "ports"]:
            return ports(query)
        case ["v2.0", "ports", uuid]:
            port = load()["ports"].get(uuid)
            return (200, {"port": port}) if port else missing(path)
        case ["v2.0", other]:
            return 200, {other.replace("-", "_"): []}
        case ["image"]:
            return 300, versions("v2.9", "/image/v2/")
        case ["image", "v2", "images"]:
            return 200, {"images": [], "first": "/v2/images", "schema": "/v2/schemas/images"}
    return missing(path)


def put(path: str, body: Any) -> Answer:
    """The response to a PUT request for a port."""
    with LOCK:
        state = load()
        port = state["ports"].get(path.rpartition("/")[2])
        if port is None:
            return missing(path)
        port.update(body["port"])
        unfinished = STATE.with_suffix(".tmp")
        unfinished.write_text(json.dumps(state, indent=1, sort_keys=True))
        unfinished.replace(STATE)
    return 200, {"port": port}


class Handler(http.server.BaseHTTPRequestHandler):
    """The HTTP server of both services."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = urllib.parse.urlsplit(self.path)
        self._answer(*get(parts.path, urllib.parse.parse_qs(parts.query)))

    def do_PUT(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer(*put(urllib.parse.urlsplit(self.path).path, json.loads(text or b"{}")))

    def _answer(self, code: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words: Any) -> None:
        with LOG.open("a") as log:
            log.write(time.strftime("[%d/%b/%Y:%H:%M:%S] ") + words[0] % words[1:] + "\n")


http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
