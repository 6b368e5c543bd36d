"""One client's connection: waitress's parser and channel with limits.

All limits on what a client sends or leaves unread are here; ``serve`` applies them.
"""

from __future__ import annotations

import re
import socket
import time
from typing import Any

# These classes are private: waitress has no public settings for time limits, for a body that
# breaks the chunk format, or for a graceful end. So setup.cfg requires waitress<4.
import waitress.channel
import waitress.parser
import waitress.utilities

#: A reshape of the largest trees is a few MiB.
MAX_BODY = 16 * 1024 * 1024
#: The request line, and so the query, with all headers.
MAX_HEADERS = 64 * 1024
#: Chunk sizes and trailers, which are not kept.
MAX_CHUNK_LINE = 8 * 1024
#: Blanks in a row: waitress takes quadratic time for them.
MAX_BLANKS = 256
#: Seconds from the first byte of a request to its last.
REQUEST_SECONDS = 60.0
#: Seconds that a client has to read a refusal while the server discards further input.
LINGER_SECONDS = 5.0
#: Bytes of responses that wait for a client while it sends further requests.
MAX_UNREAD = 16 * 1024 * 1024

#: The status of a body that does not fit the temporary folder.
_INSUFFICIENT_STORAGE = 507

_CODINGS = re.compile(rb"(?im)^transfer-encoding:([^\r\n]*)")
_BAD_LENGTH = re.compile(rb"(?im)^content-length:[ \t]*([^\r\n]*?)[ \t]*(?=\r?$)")
_BLANKS = re.compile(rb"[ \t]{%d}" % (MAX_BLANKS + 1))


class BodyNotStored(waitress.utilities.Error):  # type: ignore[misc]
    """The body could not be written to the temporary folder."""

    code = _INSUFFICIENT_STORAGE
    reason = "Insufficient Storage"


class Parser(waitress.parser.HTTPRequestParser):  # type: ignore[misc]
    """Reads one request; a malformed one becomes an error response."""

    completed: bool = False

    def __init__(self, adjustments: Any) -> None:
        super().__init__(adjustments)
        self.started = time.monotonic()

    def received(self, data: bytes) -> int:
        try:
            consumed: int = super().received(data)
        except OSError as error:
            self.error = BodyNotStored(f"The body cannot be stored: {error.strerror}")
            self.completed = True
            return len(data)
        if self.chunked and not self.completed and self._rest() > MAX_CHUNK_LINE:
            self.error = waitress.parser.BadRequest("Chunk size or trailer too long")
            self.completed = True
        if self.completed:
            # The request is over, and waitress would wait for more.
            self.expect_continue = False
        return consumed

    def _rest(self) -> int:
        return len(self.body_rcv.control_line) + len(self.body_rcv.trailer)

    def parse_header(self, header_plus: bytes) -> None:
        if _BLANKS.search(header_plus):
            raise waitress.parser.ParsingError("Too many blanks in a row")
        codings = b",".join(_CODINGS.findall(header_plus))
        if codings.count(b",") and codings.strip(b", \t"):
            raise waitress.parser.ParsingError("Several transfer codings")
        try:
            self._parse(header_plus)
        except waitress.parser.TransferEncodingNotImplemented as error:
            raise waitress.parser.ParsingError(*error.args) from error
        except ValueError as error:
            raise waitress.parser.ParsingError("Malformed request") from error

    def _parse(self, header_plus: bytes) -> None:
        """Leave a content-length that is not a number to the application, which has an error text
        for it.
        """
        found = _BAD_LENGTH.search(header_plus)
        if found is None or found[1].isdigit():
            super().parse_header(header_plus)
            if self.chunked and found is not None:
                # The next request would start elsewhere for a proxy that used the length.
                self.headers["CONNECTION"] = "close"
            return
        super().parse_header(header_plus[: found.start(1)] + b"0" + header_plus[found.end(1) :])
        self.headers["CONTENT_LENGTH"] = found[1].decode("latin-1")
        # The length of the body is unknown, so the next request cannot be found.
        self.headers["CONNECTION"] = "close"


class Channel(waitress.channel.HTTPChannel):  # type: ignore[misc]
    """A connection that never blocks the server."""

    parser_class = Parser

    #: When the last response was sent, while the client keeps the connection open.
    _lingers_since: float | None = None

    def is_late(self, now: float) -> bool:
        """Whether the time limit for a request, or for reading the last response, is over."""
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
        """Close the sending side only: closing with unread input would cut off the response."""
        self.close_when_flushed = False
        self._lingers_since = time.monotonic()
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.handle_close()

    def write_soon(self, data: bytes) -> int:
        """Send directly from ``data`` as far as possible: waitress copies all of it twice."""
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
        """Close the connection of a client that does not read."""
        if self.total_outbufs_len > self.adj.outbuf_high_watermark:
            with self.outbuf_lock:
                self._flush_exception(self._flush_some, do_close=False)
            if self.total_outbufs_len > self.adj.outbuf_high_watermark:
                self.will_close = True
                self.server.pull_trigger()
