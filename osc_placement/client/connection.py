# SPDX-License-Identifier: Apache-2.0
"""A client for programs: of a cloud's Placement, or of a database file in this process."""

from __future__ import annotations

import os

import keystoneauth1.session

from osc_placement import errors, microversion
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
    create: bool = False,
) -> api.Client:
    """A client of the Placement in a session's catalog, or of the reference server on a file.

    ``session``: of keystoneauth, with ``region``, ``interface``, or an ``endpoint`` in place of
    the catalog. ``database``: an SQLite file; with ``create`` it may be missing, and the first
    write makes it.
    ``version``: the microversion ("1.39"); None: the highest that client and server share.
    ``timeout``: seconds to wait for each part of a response.
    Sends nothing. Errors: PlacementError for a missing file; ValueError for both or none of
    session and database, for a session of another library, and for a version or a timeout.
    """
    if (session is None) == (database is None):
        raise ValueError("connect needs a session or a database, and not both")
    if session is not None and not isinstance(session, keystoneauth1.session.Session):
        raise ValueError(f"{session!r} is not a session of keystoneauth")
    if isinstance(timeout, bool) or not (isinstance(timeout, int | float) and timeout > 0):
        raise ValueError(f"timeout={timeout!r} is not a positive number of seconds")
    if database is not None and (region or interface or endpoint):
        raise ValueError("region, interface and endpoint belong to a session, not to a database")
    requested = None if version is None else microversion.supported(version)
    if session is None:
        path = os.fspath(database or "")
        if not create and not os.path.exists(path):
            raise errors.PlacementError(
                f"the database file {os.path.abspath(path)} does not exist: check its name, or"
                " connect with create=True for an empty Placement"
            )
        return api.Client(embedded(path), requested)
    over_session = transport.over_session(
        session, region=region, interface=interface, endpoint=endpoint, timeout=timeout
    )
    return api.Client(over_session, requested)


def embedded(database: str) -> transport.Transport:
    """A transport to the reference server on a file, which the first request opens."""

    def open_server() -> wsgi.WsgiApp:
        from osc_placement import server

        app: wsgi.WsgiApp = server.create_app(database, lazily=True)
        return app

    return wsgi.in_process(open_server, place=os.path.abspath(database))
