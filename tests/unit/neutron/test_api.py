# SPDX-License-Identifier: Apache-2.0
"""Responses of neutron, and requests without a response."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keystoneauth1.exceptions
import pytest
import requests
import urllib3

from osc_placement import errors
from osc_placement.client import api_errors
from osc_placement.neutron import api

PATH = "/ports/p"


class Answer:
    def __init__(self, status: int, body: Any = None) -> None:
        self.status_code, self.reason = status, "a reason"
        self._body = body

    def json(self) -> Any:
        if self._body is None:
            raise ValueError("no JSON")
        return self._body


class Connection:
    """Like the SDK's: ``network.request`` returns a response or raises."""

    def __init__(self, outcome: Answer | Exception) -> None:
        self.network = self
        self._outcome = outcome

    def request(self, path: str, method: str, **options: Any) -> Answer:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


def failure(reason: Any) -> Exception:
    """keystoneauth's error for requests' error for an error of urllib3."""
    found = keystoneauth1.exceptions.ConnectFailure("no answer")
    pool = urllib3.connectionpool.HTTPConnectionPool("neutron")
    found.__context__ = requests.ConnectionError(
        urllib3.exceptions.MaxRetryError(pool, "/", reason)
    )
    return found


REFUSED = failure(urllib3.exceptions.NewConnectionError(None, "refused"))  # type: ignore[arg-type]
CUT = failure(urllib3.exceptions.ProtocolError("Connection aborted."))


def write(neutron: api.SessionNeutron) -> Any:
    return neutron.write(PATH, {"port": {}}, 3)


def ask(neutron: api.SessionNeutron) -> Any:
    return neutron.ask(PATH)


@pytest.mark.parametrize(
    ("call", "outcome", "expected"),
    [
        (ask, REFUSED, api_errors.ConnectionFailed),
        (ask, CUT, api_errors.ConnectionFailed),
        (write, REFUSED, api_errors.ConnectionFailed),
        (write, CUT, api_errors.OutcomeUnknown),
        (write, Answer(503), api_errors.OutcomeUnknown),
        (ask, Answer(503), api.NeutronRefused),
        (write, Answer(412), api.NeutronRefused),
        (write, Answer(200), api_errors.OutcomeUnknown),
        (ask, Answer(200), api.NeutronRefused),
        (ask, RuntimeError("no catalog"), api_errors.ConnectionFailed),
    ],
)
def test_lost_and_refused_requests_have_different_errors(
    call: Callable[[api.SessionNeutron], Any],
    outcome: Answer | Exception,
    expected: type[Exception],
) -> None:
    with pytest.raises(errors.PlacementError) as caught:
        call(api.SessionNeutron(Connection(outcome)))
    assert type(caught.value) is expected
    assert "neutron" in str(caught.value)


def test_a_refusal_of_neutron_shows_its_message_alone() -> None:
    fault = {"type": "PortInUse", "message": "the port\n is bound", "detail": ""}
    refused = Connection(Answer(409, {"NeutronError": fault}))
    with pytest.raises(api.NeutronRefused) as caught:
        write(api.SessionNeutron(refused))
    assert str(caught.value) == f"neutron, PUT {PATH}: the port is bound (HTTP 409)"
