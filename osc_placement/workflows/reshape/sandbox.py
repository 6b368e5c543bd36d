"""An embedded Placement in memory with the state of a snapshot, for rehearsals.

It is the reference server: it accepts and refuses what Placement does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from osc_placement import errors, microversion, server
from osc_placement.client import api, wsgi
from osc_placement.server.store import errors as store_errors

_NAME = "the rehearsal"


class CannotRehearse(errors.PlacementError):
    """The snapshot is not a valid state of the embedded Placement."""


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """One write; ``body`` is the parsed JSON, None for an empty body."""

    method: str
    path: str
    body: Any


class Recorder:
    """A WSGI application that records the writes to a Placement."""

    def __init__(self, app: server.App) -> None:
        self.requests: list[Request] = []
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        method = environ["REQUEST_METHOD"]
        if method != "GET":
            content = environ["wsgi.input"].read()
            environ["wsgi.input"] = io.BytesIO(content)
            body = json.loads(content) if content else None
            self.requests.append(Request(method, environ["PATH_INFO"], body))
        return self._app(environ, start_response)

    def close(self) -> None:
        """Close the Placement."""
        self._app.close()


@dataclasses.dataclass(frozen=True, slots=True)
class Stage:
    """A client of the embedded Placement, and the recorder of its writes."""

    client: api.Client
    recorder: Recorder


@contextlib.contextmanager
def embedded(document: Mapping[str, Any], version: microversion.Microversion) -> Iterator[Stage]:
    """A Placement with the state of ``document``, including generations.

    Errors: CannotRehearse for a document that is not a valid state.
    """
    try:
        recorder = Recorder(server.create_app(load=document))
    except store_errors.StoreError as error:
        raise CannotRehearse(f"the plan cannot be rehearsed: {error}") from error
    client = api.Client(wsgi.in_process(lambda: recorder, _NAME), version)
    try:
        yield Stage(client, recorder)
    finally:
        client.close()
