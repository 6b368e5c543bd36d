"""An embedded Placement in memory, filled with what was observed: where plans are tried first.

Called by ``reshape``. The server is the real one, so what it refuses here Placement refuses.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from osc_placement import errors, microversion, server
from osc_placement.client import api, transport
from osc_placement.server.store import errors as store_errors

_PLACE = "the rehearsal"


class CannotRehearse(errors.PlacementError):
    """What was observed cannot be a Placement's state, as far as this program knows it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """One write that was sent: ``body`` is the parsed JSON, None where there is none."""

    method: str
    path: str
    body: Any


class Recorder:
    """A Placement that remembers every write that was sent to it."""

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
        """Let go of the state."""
        self._app.close()


@dataclasses.dataclass(frozen=True, slots=True)
class Stage:
    """Where a plan is tried: a client, and what went over it."""

    client: api.Client
    recorder: Recorder


@contextlib.contextmanager
def embedded(document: Mapping[str, Any], version: microversion.Microversion) -> Iterator[Stage]:
    """A Placement with the state of ``document``, generations included, for one block.

    Errors: CannotRehearse for a document that is no state.
    """
    try:
        recorder = Recorder(server.create_app(load=document))
    except store_errors.StoreError as error:
        raise CannotRehearse(f"the plan cannot be rehearsed: {error}") from error
    client = api.Client(transport.in_process(lambda: recorder, _PLACE), version)
    try:
        yield Stage(client, recorder)
    finally:
        client.close()
