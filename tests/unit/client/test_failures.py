# SPDX-License-Identifier: Apache-2.0
"""Why a request got no response: of every service, without a word of a library."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable

import keystoneauth1.exceptions
import keystoneauth1.session
import keystoneauth1.token_endpoint
import pytest
from openstack import connection

from osc_placement import errors
from osc_placement.client import service, transport
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api as nova_api, device_profiles, flavors, roles
from tests.support.raw_server import closed_port, listening, serving

#: Names of classes, numbers of the operating system, and a password.
LIBRARY = re.compile(r"Errno|Pool\(|Error\b|Exception|object at|Read\(|StatusLine|urllib3|s3cret")

Ask = Callable[[str], None]
Message = Callable[[Ask], str]


def session_to(url: str) -> keystoneauth1.session.Session:
    return keystoneauth1.session.Session(auth=keystoneauth1.token_endpoint.Token(url, "token"))


def ask_placement(url: str) -> None:
    transport.over_session(session_to(url), endpoint=url, timeout=60).send("GET", "/traits")


def asking(proxy: str, refused: type[service.ServiceRefused]) -> Ask:
    def ask(url: str) -> None:
        cloud = connection.Connection(session=session_to(url))
        service.send(cloud, proxy, "GET", "/things", refused, timeout=60)

    return ask


def log_in(url: str) -> None:
    """As osc-lib before the first request: the message is keystoneauth's."""
    session = session_to(url)
    transport.prepare(session)
    try:
        session.get(url, timeout=60)
    except keystoneauth1.exceptions.ClientException as error:
        raise errors.PlacementError(str(error)) from error


ASKING: dict[str, Ask] = {
    "placement": ask_placement,
    "nova": asking("compute", nova_api.NovaRefused),
    "neutron": asking("network", neutron_api.NeutronRefused),
    "glance": asking("image", flavors.GlanceRefused),
    "cyborg": asking("accelerator", device_profiles.CyborgRefused),
    "keystone": asking("identity", roles.KeystoneRefused),
    "the login": log_in,
}


def answering(answer: bytes | None) -> Message:
    def message(ask: Ask) -> str:
        with listening(answer) as (url, _):
            return message_of(ask, url)

    return message


def without_tls(ask: Ask) -> str:
    """The message about a server that does not wait for the end of a request."""

    def refuse(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with serving(refuse) as url:
        return message_of(ask, url.replace("http", "https"))


def message_of(ask: Ask, url: str) -> str:
    with pytest.raises(errors.PlacementError) as caught:
        ask(url)
    return str(caught.value)


HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n"
FAILURES: dict[str, tuple[Message, str]] = {
    "nothing listens": (lambda ask: message_of(ask, closed_port()), "refuses connections"),
    "an unknown name": (
        lambda ask: message_of(ask, "http://cloud.invalid:8778"),
        "no address is known for http://cloud.invalid:8778",
    ),
    "closed at once": (answering(None), "closed the connection"),
    "half a response": (answering(HEAD + b"\r\n{"), "closed the connection"),
    "another protocol": (answering(b"SSH-2.0-x\r\n\r\n"), "does not answer with HTTP"),
    "a damaged body": (
        answering(HEAD + b"Content-Encoding: gzip\r\n\r\n123456789"),
        "sends a damaged response",
    ),
    "no TLS": (without_tls, "does not answer with TLS"),
}


@pytest.mark.parametrize("ask", ASKING.values(), ids=ASKING)
@pytest.mark.parametrize(("message", "text"), FAILURES.values(), ids=FAILURES)
def test_a_failed_connection_is_said_in_plain_words(
    ask: Ask, message: Message, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert text in (said := message(ask))
    assert (LIBRARY.findall(said), caplog.messages) == ([], [])


def test_a_proxy_that_refuses_connections_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", closed_port().replace("//", "//me:s3cret@"))
    said = message_of(ask_placement, "http://cloud.example")
    assert "the proxy before http://cloud.example (http_proxy, https_proxy) refuses" in said
    assert LIBRARY.findall(said) == []
