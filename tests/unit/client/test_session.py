"""The session of many requests to one server."""

from __future__ import annotations

import socket

import keystoneauth1.session
import pytest
import requests

from osc_placement.client import session as sessions


def proxy(session: keystoneauth1.session.Session, url: str) -> str | None:
    """The proxy of a request."""
    merged = session.session.merge_environment_settings(url, {}, None, True, None)
    return merged["proxies"].get("http")


def test_the_proxies_of_the_environment_are_read_once_per_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "direct.example")
    session = keystoneauth1.session.Session()
    adapters = session.session.adapters
    sessions.prepare(session)
    assert session.session.adapters is adapters
    assert proxy(session, "http://placement.example/a") == "http://proxy.example:3128"
    assert proxy(session, "http://direct.example/a") is None
    monkeypatch.setenv("http_proxy", "http://later.example:3128")
    assert proxy(session, "http://placement.example/b") == "http://proxy.example:3128"
    assert proxy(session, "http://other.example/b") == "http://later.example:3128"


def test_a_session_of_another_class_stays() -> None:
    class Own(requests.Session):
        pass

    own = Own()
    session = keystoneauth1.session.Session(session=own)
    sessions.prepare(session)
    assert session.session is own


def test_connections_of_many_workers_stay_open() -> None:
    session = keystoneauth1.session.Session()
    sessions.prepare(session)
    adapter = session.session.get_adapter("http://placement.example")
    assert isinstance(adapter, keystoneauth1.session.TCPKeepAliveAdapter)
    pool = adapter.poolmanager.connection_from_url("http://placement.example")
    assert pool.pool is not None
    assert pool.pool.maxsize == sessions.CONNECTIONS
    # keystoneauth's own options of the sockets stay.
    assert (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1) in pool.conn_kw["socket_options"]
