# SPDX-License-Identifier: Apache-2.0
"""The reference server with one fault, which other implementations of Placement may have.

A fault is a function of a request and of the right server; it returns the response.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import wsgiref.simple_server
from collections.abc import Callable, Iterator
from typing import Any

import webob

from osc_placement import server

Send = Callable[[webob.Request], webob.Response]
Fault = Callable[[webob.Request, Send], webob.Response]

VERSION = "openstack-api-version"


def asked(pattern: str, change: Callable[[webob.Request], None]) -> Fault:
    """Change the request before the server gets it, if ``METHOD /path`` matches."""

    def fault(request: webob.Request, send: Send) -> webob.Response:
        if re.fullmatch(pattern, f"{request.method} {request.path_info}"):
            change(request)
        return send(request)

    return fault


def answered(pattern: str, change: Callable[[webob.Response], None], status: str = "2..") -> Fault:
    """Change the response of the server, if ``METHOD /path`` and its status match."""

    def fault(request: webob.Request, send: Send) -> webob.Response:
        response = send(request)
        line = f"{request.method} {request.path_info}"
        if re.fullmatch(pattern, line) and re.fullmatch(status, str(response.status_code)):
            change(response)
        return response

    return fault


def with_json(change: Callable[[Any], object]) -> Callable[[Any], None]:
    """Change the JSON of a request or a response, if it has one."""

    def changed(message: Any) -> None:
        if message.body and "json" in (message.content_type or ""):
            body = json.loads(message.body)
            change(body)
            message.body = json.dumps(body).encode()

    return changed


def status(code: int) -> Callable[[webob.Response], None]:
    """Another status of the response."""
    return lambda response: setattr(response, "status_code", code)


def without_header(name: str) -> Callable[[webob.Response], None]:
    return lambda response: response.headers.pop(name, None)


def without_parameters(*names: str) -> Callable[[webob.Request], None]:
    """The query without these parameters."""

    def change(request: webob.Request) -> None:
        kept = [item for item in request.query_string.split("&") if item.split("=")[0] not in names]
        request.query_string = "&".join(kept)

    return change


def at_version(version: str) -> Callable[[webob.Request], None]:
    return lambda request: request.headers.update({VERSION: f"placement {version}"})


def each(key: str, change: Callable[[Any], object]) -> Callable[[Any], None]:
    """Change every item of a list, or every value of an object, in the JSON."""

    def changed(body: Any) -> None:
        items = body.get(key, [])
        for item in items.values() if isinstance(items, dict) else items:
            change(item)

    return with_json(changed)


def _default_is_latest(request: webob.Request) -> None:
    request.headers.setdefault(VERSION, "placement 1.39")


def _with_newest_generation(request: webob.Request, send: Send) -> webob.Response:
    """Ignore the generation of a write of inventories."""
    if request.method == "PUT" and "/inventories" in request.path_info:
        provider = request.path_info.partition("/inventories")[0]
        headers = {"x-auth-token": "admin", VERSION: "placement 1.39"}
        current = send(webob.Request.blank(provider, headers=headers))
        if current.status_code == 200:
            generation = current.json["generation"]
            with_json(lambda body: body.update(resource_provider_generation=generation))(request)
    return send(request)


def _one_by_one(request: webob.Request, send: Send) -> webob.Response:
    """Write the consumers of POST /allocations in separate transactions."""
    if (request.method, request.path_info) != ("POST", "/allocations"):
        return send(request)
    for consumer, body in json.loads(request.body).items():
        single = request.copy()
        single.path_info, single.body = "/allocations", json.dumps({consumer: body}).encode()
        response = send(single)
        if response.status_code != 204:
            return response
    return response


def _forget_consumer_generation(request: webob.Request, send: Send) -> webob.Response:
    """Accept a write of allocations with any generation."""
    if request.method == "PUT" and request.path_info.startswith("/allocations/"):
        headers = {"x-auth-token": "admin", VERSION: "placement 1.39"}
        current = send(webob.Request.blank(request.path_info, headers=headers)).json
        generation = current.get("consumer_generation")
        with_json(
            lambda body: (
                "consumer_generation" in body and body.update(consumer_generation=generation)
            )
        )(request)
    return send(request)


def _append_aggregates(request: webob.Request, send: Send) -> webob.Response:
    """Add aggregates where the request replaces them."""
    if request.method == "PUT" and request.path_info.endswith("/aggregates"):
        headers = {"x-auth-token": "admin", VERSION: "placement 1.19"}
        current = send(webob.Request.blank(request.path_info, headers=headers)).json["aggregates"]
        with_json(
            lambda body: (
                isinstance(body, dict) and body.update(aggregates=[*current, *body["aggregates"]])
            )
        )(request)
    return send(request)


def _without_token(request: webob.Request) -> None:
    request.headers.setdefault("x-auth-token", "admin")


def _unlimited(body: Any) -> None:
    for fields in (body.get("inventories") or {}).values():
        fields.pop("max_unit", None)
        fields.pop("step_size", None)


CANDIDATES = "GET /allocation_candidates"
ALL = ".*"

FAULTS: dict[str, Fault] = {
    "": lambda request, send: send(request),
    "no version in the response": answered(ALL, without_header(VERSION)),
    "no vary header": answered(ALL, without_header("vary")),
    "another last version": answered(
        "GET /", each("versions", lambda item: item.update(max_version="1.38"))
    ),
    "the default version is the last": asked(ALL, _default_is_latest),
    "a future version is the last": asked(
        ALL,
        lambda request: (
            at_version("1.39")(request) if "1.40" in request.headers.get(VERSION, "") else None
        ),
    ),
    "an error without a code": answered(ALL, each("errors", lambda e: e.pop("code", "")), "4.."),
    "an error with a code below 1.23": answered(
        ALL, each("errors", lambda e: e.setdefault("code", "placement.undefined_code")), "4.."
    ),
    "an error without a request id": answered(
        ALL, each("errors", lambda e: e.pop("request_id")), "4.."
    ),
    "an unknown provider is a bad request": answered(
        "GET /resource_providers/[^/]+", status(400), "404"
    ),
    "405 without the methods": answered(ALL, without_header("allow"), "405"),
    "an error is always JSON": asked(
        ALL, lambda request: request.headers.update(accept="application/json")
    ),
    "a new trait is 200": answered("PUT /traits/.*", status(200), "201"),
    "a standard trait can be deleted": answered("DELETE /traits/.*", status(204), "400"),
    "a trait in use can be deleted": answered("DELETE /traits/.*", status(204), "409"),
    "a class in use can be deleted": answered("DELETE /resource_classes/.*", status(204), "409"),
    "a parent can be deleted": answered("DELETE /resource_providers/[^/]+", status(204), "409"),
    "no last-modified header": answered(ALL, without_header("last-modified")),
    "a provider without its root": answered(
        "(GET|POST|PUT) /resource_providers.*",
        with_json(lambda body: body.update(root_provider_uuid=body.get("parent_provider_uuid"))),
    ),
    "a provider moves at any version": asked("PUT /resource_providers/[^/]+", at_version("1.39")),
    "a list ignores the name": asked("GET /resource_providers", without_parameters("name")),
    "a list ignores the tree": asked("GET /resource_providers", without_parameters("in_tree")),
    "a list ignores traits": asked("GET /resource_providers", without_parameters("required")),
    "a list ignores what is free": asked(
        "GET /resource_providers", without_parameters("resources")
    ),
    "aggregates are added": _append_aggregates,
    "inventories of any generation": _with_newest_generation,
    "max_unit and step_size are not kept": asked(
        "PUT /resource_providers/[^/]+/inventories", with_json(_unlimited)
    ),
    "the ratio is not kept": asked(
        "PUT /resource_providers/[^/]+/inventories",
        each("inventories", lambda fields: fields.pop("allocation_ratio", None)),
    ),
    "consumers of any generation": _forget_consumer_generation,
    "an unknown consumer is an error": answered(
        "GET /allocations/.*",
        lambda response: status(404 if response.json == {"allocations": {}} else 200)(response),
    ),
    "every consumer is an instance": asked(
        "PUT /allocations/.*",
        with_json(lambda body: "consumer_type" in body and body.update(consumer_type="INSTANCE")),
    ),
    "consumers are written one by one": _one_by_one,
    "usages are empty": answered(
        "GET /resource_providers/[^/]+/usages", with_json(lambda body: body.update(usages={}))
    ),
    "candidates ignore the limit": asked(CANDIDATES, without_parameters("limit")),
    "candidates ignore traits": asked(CANDIDATES, without_parameters("required")),
    "candidates ignore aggregates": asked(CANDIDATES, without_parameters("member_of")),
    "candidates ignore the trait of the root": asked(
        CANDIDATES, without_parameters("root_required")
    ),
    "candidates never isolate groups": asked(
        CANDIDATES,
        lambda request: setattr(
            request, "query_string", request.query_string.replace("=isolate", "=none")
        ),
    ),
    "candidates without mappings": answered(
        CANDIDATES, each("allocation_requests", lambda item: item.pop("mappings", None))
    ),
    "summaries without traits": answered(
        CANDIDATES, each("provider_summaries", lambda item: item.update(traits=[]))
    ),
    "summaries without reserved amounts": answered(
        CANDIDATES,
        each(
            "provider_summaries",
            lambda item: [
                amounts.update(capacity=amounts["capacity"] + 4)
                for amounts in item["resources"].values()
            ],
        ),
    ),
    "a user needs no token": asked(ALL, _without_token),
    "every user has every right": asked(
        ALL, lambda request: request.headers.update({"x-roles": "admin,service"})
    ),
    "the reshaper ignores allocations": asked(
        "POST /reshaper", with_json(lambda body: body.update(allocations={}))
    ),
}
NONE = FAULTS.pop("")


class _Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@contextlib.contextmanager
def served(name: str) -> Iterator[str]:
    """The URL of an empty reference server with this fault; an empty name: without one."""
    app, fault = server.create_app(legacy_rbac=True), FAULTS.get(name, NONE)

    def send(request: webob.Request) -> webob.Response:
        response = request.get_response(app)
        response.headers.pop("content-length", None)
        response.content_length = len(response.body) if response.body else None
        return response

    def faulty(environ: dict[str, Any], start_response: Any) -> Any:
        return fault(webob.Request(environ), send)(environ, start_response)

    with wsgiref.simple_server.make_server("127.0.0.1", 0, faulty, handler_class=_Quiet) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_port}"
        finally:
            http.shutdown()
            thread.join()
            app.close()
