"""One client's connection: waitress's reading and writing, with bounds where it has none.

Every limit on what a client may send or leave unread stands here; ``serve`` applies them.
"""

from __future__ import annotations

import re
import socket
import time
from typing import Any

import waitress.channel
import waitress.parser

#: A reshape of the largest trees is a few MiB.
MAX_BODY = 16 * 1024 * 1024
#: The request line, and so the query, with all headers.
MAX_HEADERS = 64 * 1024
#: Chunk sizes and trailers, of which nothing is kept.
MAX_CHUNK_LINE = 8 * 1024
#: Of blanks in a row: waitress needs quadratic time for them.
MAX_BLANKS = 256
#: Seconds from the first byte of a request to its last.
REQUEST_SECONDS = 60.0
#: Seconds that a client gets to read a refusal, while what it still sends is thrown away.
LINGER_SECONDS = 5.0
#: Bytes of answers that wait for a client while it sends further requests.
MAX_UNREAD = 16 * 1024 * 1024

_BAD_LENGTH = re.compile(rb"(?im)^content-length:[ \t]*([^\r\n]*?)[ \t]*(?=\r?$)")
_BLANKS = re.compile(rb"[ \t]{%d}" % (MAX_BLANKS + 1))


class Parser(waitress.parser.HTTPRequestParser):  # type: ignore[misc]
    """Reads one request; what is malformed becomes an answer, whatever it is."""

    completed: bool = False

    def __init__(self, adjustments: Any) -> None:
        super().__init__(adjustments)
        self.started = time.monotonic()

    def received(self, data: bytes) -> int:
        consumed: int = super().received(data)
        if self.chunked and not self.completed and self._rest() > MAX_CHUNK_LINE:
            self.error = waitress.parser.BadRequest("Chunk size or trailer too long")
            self.completed = True
        if self.completed:
            # There is nothing to go on with, and waitress would wait for it.
            self.expect_continue = False
        return consumed

    def _rest(self) -> int:
        return len(self.body_rcv.control_line) + len(self.body_rcv.trailer)

    def parse_header(self, header_plus: bytes) -> None:
        if _BLANKS.search(header_plus):
            raise waitress.parser.ParsingError("Too many blanks in a row")
        try:
            self._parse(header_plus)
        except waitress.parser.TransferEncodingNotImplemented as error:
            raise waitress.parser.ParsingError(*error.args) from error
        except ValueError as error:
            raise waitress.parser.ParsingError("Malformed request") from error

    def _parse(self, header_plus: bytes) -> None:
        """Leave a content-length that is no number to the application, which has a text for it."""
        found = _BAD_LENGTH.search(header_plus)
        if found is None or found[1].isdigit():
            super().parse_header(header_plus)
            return
        super().parse_header(header_plus[: found.start(1)] + b"0" + header_plus[found.end(1) :])
        self.headers["CONTENT_LENGTH"] = found[1].decode("latin-1")
        # What follows may be a body or not: there is no telling.
        self.connection_close = True


class Channel(waitress.channel.HTTPChannel):  # type: ignore[misc]
    """A connection that nobody has to wait for."""

    parser_class = Parser

    #: When the last answer was sent; the client has not closed the connection since.
    _lingers_since: float | None = None

    def is_late(self, now: float) -> bool:
        """Whether the client has had its time: for a request, or to read the last answer."""
        if self._lingers_since is not None:
            return now - self._lingers_since > LINGER_SECONDS
        request = self.request
        return request is not None and now - request.started > REQUEST_SECONDS

    def readable(self) -> bool:
        if self._lingers_since is not None:
            return not self.will_close
        return not self.server.draining and bool(super().readable())

    def handle_read(self) -> None:
        if self._lingers_since is None:
            super().handle_read()
        else:
            self.recv(self.adj.recv_bytes)

    def handle_write(self) -> None:
        if self.close_when_flushed and not self.will_close:
            self._flush_exception(self._flush_some)
            if not self.connected:
                return
            if not (self.total_outbufs_len or self.will_close):
                self._linger()
                return
        super().handle_write()

    def _linger(self) -> None:
        """End the sending side alone: closing what is not read to its end cuts off the answer."""
        self.close_when_flushed = False
        self._lingers_since = time.monotonic()
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.handle_close()

    def write_soon(self, data: bytes) -> int:
        """Send what goes at once from where it is: waitress copies all of it, twice or more."""
        with self.outbuf_lock:
            if not (self.connected and data) or self.total_outbufs_len:
                return int(super().write_soon(data))
            try:
                sent = self.send(data, do_close=False)
            except OSError:
                sent = 0
            self.last_activity = time.time()
            super().write_soon(data[sent:])
            return len(data)

    def _flush_outbufs_below_high_watermark(self) -> None:
        """Cut off who sends on without reading: the worker must not wait for one client."""
        if self.total_outbufs_len > self.adj.outbuf_high_watermark:
            with self.outbuf_lock:
                self._flush_exception(self._flush_some, do_close=False)
            if self.total_outbufs_len > self.adj.outbuf_high_watermark:
                self.will_close = True
                self.server.pull_trigger()
