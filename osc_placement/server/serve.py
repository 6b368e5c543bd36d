"""An application behind a socket: waitress, bounded, and ended without cutting answers off."""

from __future__ import annotations

import contextlib
import logging
import resource
import signal
import socket
import time
from typing import Any

import waitress.server

from osc_placement.server import connection, events

#: Seconds until a connection that neither sends nor takes is closed.
IDLE_SECONDS = 120
MAX_CONNECTIONS = 10_000
#: Files that are open beside the connections: the database, large bodies.
OTHER_FILES = 128
#: Seconds that answers in flight get at the end.
DRAIN_SECONDS = 10.0
_SWEEP_SECONDS = 5


class CannotStart(Exception):
    """The service could not be started; the text says why and what to do."""


class Server:
    """A listening service; ``url`` is where. Raises CannotStart when it cannot listen.

    One of the ``threads`` is enough for an application that waits for nobody.
    """

    def __init__(self, app: Any, host: str, port: int, threads: int = 1) -> None:
        # With few workers a queue is the normal thing.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        listener = _listen(host, port)
        self._sockets = events.Sockets()
        self._server = waitress.server.create_server(
            app,
            map=self._sockets,
            sockets=[listener],
            threads=threads,
            ident="osc-placement-server",
            # Both are refused from that size on.
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
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.effective_port}"

    def run(self) -> None:
        """Serve until ``stop`` is called; then finish what is in flight."""
        while not self._stopping:
            self._sockets.turn(1.0)
        self._refuse_more()
        until = time.monotonic() + DRAIN_SECONDS
        while self._busy() and time.monotonic() < until:
            self._sockets.turn(0.05)
        self._server.task_dispatcher.shutdown()
        self._server.close()
        self._sockets.close()

    def stop(self) -> None:
        """Make ``run`` come to its end."""
        if not self._stopping:
            self._stopping = True
            self._server.pull_trigger()

    def stop_on_signals(self) -> None:
        """From now on SIGTERM and SIGINT stop it."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop())

    def _refuse_more(self) -> None:
        self._server.draining = True
        self._server.accepting = False
        self._server.del_channel(self._sockets)
        self._server.socket.close()
        for descriptor in self._server.active_channels:
            self._sockets.look_at(descriptor)

    def _sweep(self, now: float) -> None:
        """Close connections that are idle, and those whose request does not come to its end."""
        clock = time.monotonic()
        for descriptor, channel in self._server.active_channels.items():
            idle = not channel.requests and channel.last_activity < now - IDLE_SECONDS
            if idle or channel.is_late(clock):
                channel.will_close = True
                self._sockets.look_at(descriptor)

    def _busy(self) -> bool:
        return any(
            channel.requests or channel.total_outbufs_len
            for channel in self._server.active_channels.values()
        )


def raise_file_limit() -> None:
    """Let this process open as many files as it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _connection_limit() -> int:
    """Beyond it, connections wait until others are closed."""
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
            " with --port (0 takes any)"
        ) from error
    except ValueError as error:
        raise CannotStart(f"cannot listen on {host}:{port}: {error}") from error
