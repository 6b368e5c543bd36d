"""An application behind a socket: waitress, bounded, and ended without cutting answers off.

One worker thread is enough: the state is behind one lock.
"""

from __future__ import annotations

import logging
import re
import signal
import time
from typing import Any

import waitress.adjustments
import waitress.channel
import waitress.parser
import waitress.server
import waitress.task
import waitress.wasyncore

#: A reshape of the largest trees is a few MiB.
MAX_BODY = 64 * 1024 * 1024
MAX_HEADERS = 64 * 1024
#: Seconds until a connection that neither sends nor takes is closed.
IDLE_SECONDS = 120
MAX_CONNECTIONS = 10_000
#: Seconds that answers in flight get at the end.
DRAIN_SECONDS = 10.0

_BAD_LENGTH = re.compile(rb"(?im)^content-length:[ \t]*([^\r\n]*?)[ \t]*(?=\r?$)")


class CannotServe(Exception):
    """The service could not be started; the text says why and what to do."""


class _Parser(waitress.parser.HTTPRequestParser):  # type: ignore[misc]
    """Hands a content-length that is no number to the application, which has a text for it."""

    def parse_header(self, header_plus: bytes) -> None:
        found = _BAD_LENGTH.search(header_plus)
        if found is None or found[1].isdigit():
            super().parse_header(header_plus)
            return
        super().parse_header(header_plus[: found.start(1)] + b"0" + header_plus[found.end(1) :])
        self.headers["CONTENT_LENGTH"] = found[1].decode("latin-1")
        # What follows may be a body or not: there is no telling.
        self.connection_close = True


class _Channel(waitress.channel.HTTPChannel):  # type: ignore[misc]
    parser_class = _Parser


class Server:
    """A listening service; ``url`` is where. Raises CannotServe when it cannot listen."""

    def __init__(self, app: Any, host: str, port: int) -> None:
        # With one worker a queue is the normal thing.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        self._sockets: dict[int, Any] = {}
        try:
            self._server = waitress.server.create_server(
                app,
                map=self._sockets,
                host=host,
                port=port,
                threads=1,
                ident="osc-placement-server",
                max_request_body_size=MAX_BODY,
                max_request_header_size=MAX_HEADERS,
                channel_timeout=IDLE_SECONDS,
                connection_limit=MAX_CONNECTIONS,
                asyncore_use_poll=True,
            )
        except OSError as error:
            raise CannotServe(
                f"cannot listen on {host}:{port}: {error.strerror or error}; choose another"
                " with --port (0 takes any)"
            ) from error
        except ValueError as error:
            raise CannotServe(f"cannot listen on {host}:{port}: {error}") from error
        self._server.channel_class = _Channel
        self._stopping = False
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.effective_port}"

    def run(self) -> None:
        """Serve until ``stop`` is called; then finish what is in flight."""
        while not self._stopping:
            self._turn(1.0)
        self._server.accepting = False
        self._server.socket.close()
        until = time.monotonic() + DRAIN_SECONDS
        while self._busy() and time.monotonic() < until:
            self._turn(0.05)
        self._server.task_dispatcher.shutdown()
        self._server.close()

    def stop(self) -> None:
        """Make ``run`` come to its end."""
        self._stopping = True
        self._server.pull_trigger()

    def run_until_signal(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop())
        self.run()

    def _turn(self, timeout: float) -> None:
        waitress.wasyncore.loop(timeout=timeout, use_poll=True, map=self._sockets, count=1)

    def _busy(self) -> bool:
        return any(
            channel.requests or channel.total_outbufs_len
            for channel in self._server.active_channels.values()
        )
