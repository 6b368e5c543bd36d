# SPDX-License-Identifier: Apache-2.0
"""A client for programs: of a cloud's Placement, or of a database file in this process."""

from __future__ import annotations

import os

import keystoneauth1.session

from osc_placement import microversion
from osc_placement.client import api, transport, wsgi


def connect(
    *,
    session: keystoneauth1.session.Session | None = None,
    database: str | os.PathLike[str] | None = None,
    version: str | None = None,
    region: str | None = None,
    interface: str | None = None,
    endpoint: str | None = None,
    timeout: float = transport.READ_TIMEOUT,
) -> api.Client:
    """A client of the Placement in a session's catalog, or of the embedded server on a file.

    ``session``: of keystoneauth, with ``region``, ``interface``, or an ``endpoint`` in place of
    the catalog. ``database``: an SQLite file; a missing one is made by the first write.
    ``version``: the microversion ("1.39"); None: the highest that client and server share.
    ``timeout``: seconds to wait for each part of a response.
    Sends nothing. Errors: ValueError for both or none of session and database, and for a version.
    """
    if (session is None) == (database is None):
        raise ValueError("connect needs a session or a database, and not both")
    requested = None if version is None else microversion.supported(version)
    if session is None:
        return api.Client(embedded(os.fspath(database or "")), requested)
    over_session = transport.over_session(
        session, region=region, interface=interface, endpoint=endpoint, timeout=timeout
    )
    return api.Client(over_session, requested)


def embedded(database: str) -> transport.Transport:
    """A transport to the embedded server on a file, which the first request opens."""

    def open_server() -> wsgi.WsgiApp:
        from osc_placement import server

        app: wsgi.WsgiApp = server.create_app(database, lazily=True)
        return app

    return wsgi.in_process(open_server, place=os.path.abspath(database))
