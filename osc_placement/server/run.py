# SPDX-License-Identifier: Apache-2.0
"""Runs ``osc-placement-server``: serves Placement over HTTP, or checks or exports its database.

waitress decides how requests are read. A lab server that strangers can reach stands behind a proxy,
which limits slow and malformed requests.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import logging
import os
import pathlib
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Sequence
from typing import Any

from osc_placement.errors import needs_extra
from osc_placement.model.name import counted
from osc_placement.server import app, log, options as server_options
from osc_placement.server.store import errors, sqlite

#: Time after which one thread lets another one compute.
SWITCH_SECONDS = 0.001


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal; returns 0, or 1 with the reason on stderr."""
    options = server_options.parse(arguments)
    log.configure(debug=options.debug)
    if options.check is not None:
        return _check(options.check)
    try:
        _check_export(options)
        placement = server_options.create(options)
    except server_options.CANNOT_START as error:
        return _fail(error)
    # The loaded state stays for the life of the process: exclude it from garbage collection.
    gc.freeze()
    # Searches compute for seconds: threads of other requests get their turn soon.
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        if options.export is not None:
            _export(placement, options.export)
            return 0
        if options.exit:
            sys.stdout.write(f"{options.database}: {options.load} is loaded\n")
            return 0
        server = HttpServer(placement, options.host, options.port, THREADS)
        server.stop_on_signals()
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        server.run()
    except server_options.CANNOT_START as error:
        return _fail(error)
    finally:
        placement.close()
    return 0


def _check(path: str) -> int:
    """Check a database; 0, or 1 with the problems on stderr."""
    if not os.path.exists(path):
        return _fail(server_options.CannotStart(f"database {path} does not exist"))
    try:
        store = sqlite.SqliteStore(path)
        with contextlib.closing(store):
            store.check()
            records = store.load()
    except errors.StoreError as error:
        return _fail(error)
    sys.stdout.write(
        f"{path}: {counted(len(records.providers), 'provider')},"
        f" {counted(len(records.consumers), 'consumer')}, no problems\n"
    )
    return 0


def _fail(error: Exception) -> int:
    sys.stderr.write(f"osc-placement-server: {error}\n")
    return 1


def _check_export(options: argparse.Namespace) -> None:
    """An export must not create a database from a misspelt name, or replace the database."""
    exports_existing = options.load is None and options.database is not None
    if options.export is not None and exports_existing and not os.path.exists(options.database):
        raise server_options.CannotStart(
            f"database {options.database} does not exist, so it cannot be exported"
        )
    paths = (options.database, options.export)
    if None not in paths and os.path.realpath(paths[0]) == os.path.realpath(paths[1]):
        raise server_options.CannotStart(f"--export {options.export} is the database itself")


def _export(placement: app.App, path: str) -> None:
    """Write the state as a JSON document to a file, or to stdout for ``-``."""
    text = json.dumps(placement.export(), indent=1) + "\n"
    if path == "-":
        sys.stdout.write(text)
        return
    target = pathlib.Path(path)
    try:
        if target.exists() and not target.is_file():
            raise server_options.CannotStart(f"{path} is not a regular file; - is stdout")
        # A name that nobody can foresee, and mode 0600: the document names projects and users.
        descriptor, unfinished = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(unfinished, target)
        except BaseException:
            os.unlink(unfinished)
            raise
    except OSError as error:
        raise server_options.CannotStart(f"{path} cannot be written: {error.strerror}") from error


#: A reshape of the largest trees is a few MiB.
MAX_BODY = 16 * 1024 * 1024
#: The request line, and so the query, with all headers.
MAX_HEADERS = 64 * 1024
#: Seconds until a connection without traffic is closed.
IDLE_SECONDS = 120
#: Requests that are handled at the same time.
THREADS = 8
#: Below the usual limit of open files, 1,024. Further connections wait.
MAX_CONNECTIONS = 500
#: Seconds between the searches for idle connections.
_SWEEP_SECONDS = 5


class HttpServer:
    """A listening server of a WSGI application; ``url`` is its address.

    Errors: CannotStart if it cannot listen.
    """

    def __init__(self, app: Any, host: str, port: int, threads: int = 1) -> None:
        self._stopping, self._woken = threading.Lock(), threading.Event()
        with needs_extra("server", "a server on a port"):
            import waitress
        # With few worker threads a queue is normal.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        self._listener = _listen(host, port)
        self._sockets: dict[int, Any] = {}
        self._server = waitress.create_server(
            app,
            map=self._sockets,
            sockets=[self._listener],
            threads=threads,
            ident="osc-placement-server",
            # waitress refuses a request that reaches these sizes.
            max_request_body_size=MAX_BODY + 1,
            max_request_header_size=MAX_HEADERS + 1,
            channel_timeout=IDLE_SECONDS,
            cleanup_interval=_SWEEP_SECONDS,
            connection_limit=MAX_CONNECTIONS,
            asyncore_use_poll=True,
            log_socket_errors=False,
        )
        url_host = f"[{host}]" if ":" in host else host
        self.url = f"http://{url_host}:{self._server.effective_port}"

    def run(self) -> None:
        """Serve until ``stop`` is called."""
        self._server.run()
        self._server.task_dispatcher.shutdown()

    def stop(self) -> None:
        """Close every connection, and make ``run`` return; a signal handler may call this."""
        if self._stopping.acquire(blocking=False):
            threading.Thread(target=self._end).start()

    def stop_on_signals(self) -> None:
        """Stop on SIGTERM and SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop())

    def _end(self) -> None:
        # Only the thread of ``run`` may change the sockets.
        self._server.trigger.pull_trigger(self._close_all)
        self._woken.set()

    def _close_all(self) -> None:
        # One of the sockets is that which wakes this thread.
        self._woken.wait()
        for connection in tuple(self._sockets.values()):
            connection.close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server((str(address[0]), port), family=family)
    except OSError as error:
        raise server_options.CannotStart(
            f"cannot listen on {host}:{port}: {error.strerror or error}; choose another"
            " --port (0 for any)"
        ) from error
    except ValueError as error:
        raise server_options.CannotStart(f"cannot listen on {host}:{port}: {error}") from error
