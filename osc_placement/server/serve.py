"""An application behind a socket: waitress with limits and a graceful end."""

from __future__ import annotations

import contextlib
import logging
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import waitress.server

from osc_placement.server import connection, events

#: Seconds until a connection without traffic is closed.
IDLE_SECONDS = 120
MAX_CONNECTIONS = 10_000
#: Open files other than connections: the database, large bodies.
OTHER_FILES = 128
#: Seconds for responses in flight when the server stops.
DRAIN_SECONDS = 10.0
_SWEEP_SECONDS = 5


class CannotStart(Exception):
    """The server cannot start; the text has the reason and the remedy."""


class Server:
    """A listening server; ``url`` is its address. Raises CannotStart if it cannot listen."""

    def __init__(
        self,
        app: Any,
        host: str,
        port: int,
        threads: int = 1,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_stop = on_stop
        # With few worker threads a queue is normal.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        listener = _listen(host, port)
        self._sockets = events.Sockets()
        self._server = waitress.server.create_server(
            app,
            map=self._sockets,
            sockets=[listener],
            threads=threads,
            ident="osc-placement-server",
            # waitress refuses a request that reaches these sizes.
            max_request_body_size=connection.MAX_BODY + 1,
            max_request_header_size=connection.MAX_HEADERS + 1,
            outbuf_high_watermark=connection.MAX_UNREAD,
            cleanup_interval=_SWEEP_SECONDS,
            connection_limit=_connection_limit(),
            log_socket_errors=False,
        )
        self._server.channel_class = connection.Channel
        self._server.maintenance = self._sweep
        self._server.draining = False
        self._stopping = False
        # ``run`` keeps the sockets open until ``stop`` has used them. A signal handler, which calls
        # ``stop`` in the thread of ``run``, does not wait.
        self._ending = threading.RLock()
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.effective_port}"

    def run(self) -> None:
        """Serve until ``stop`` is called, then finish the requests in flight."""
        while not self._stopping:
            self._sockets.turn(1.0)
        self._refuse_more()
        until = time.monotonic() + DRAIN_SECONDS
        while self._busy() and time.monotonic() < until:
            self._sockets.turn(0.05)
        self._server.task_dispatcher.shutdown()
        with self._ending:
            self._server.close()
            self._sockets.close()

    def stop(self) -> None:
        """Make ``run`` return."""
        with self._ending:
            if not self._stopping:
                self._stopping = True
                self._on_stop()
                self._server.pull_trigger()

    def stop_on_signals(self) -> None:
        """Stop on SIGTERM and SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop())

    def _refuse_more(self) -> None:
        self._server.draining = True
        self._server.accepting = False
        self._server.del_channel(self._sockets)
        self._server.socket.close()
        for descriptor in self._server.active_channels:
            self._sockets.mark_changed(descriptor)

    def _sweep(self, now: float) -> None:
        """Close idle connections and those of requests that exceed their time limit."""
        clock = time.monotonic()
        for descriptor, channel in self._server.active_channels.items():
            idle = not channel.requests and channel.last_activity < now - IDLE_SECONDS
            if idle or channel.is_late(clock):
                channel.will_close = True
                self._sockets.mark_changed(descriptor)

    def _busy(self) -> bool:
        return any(
            channel.requests or channel.total_outbufs_len
            for channel in self._server.active_channels.values()
        )


def raise_file_limit() -> None:
    """Raise the soft limit of open files to the hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _connection_limit() -> int:
    """The number of connections; further ones wait."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(OTHER_FILES, min(MAX_CONNECTIONS, soft - OTHER_FILES))


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server((str(address[0]), port), family=family)
    except OSError as error:
        raise CannotStart(
            f"cannot listen on {host}:{port}: {error.strerror or error}; choose another"
            " --port (0 for any)"
        ) from error
    except ValueError as error:
        raise CannotStart(f"cannot listen on {host}:{port}: {error}") from error
