# SPDX-License-Identifier: Apache-2.0
"""stdout and stderr of a command.

They may be closed or full, which does not hide what the command has done. Messages and log records
have escapes instead of the control characters of names.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from osc_placement import address, errors
from osc_placement.v1.output import rows, terminal

#: The exit code of a command whose output could not be written.
EXIT_CODE = 8

#: The exit code of a program that ended because its reader closed the pipe (128 + SIGPIPE).
PIPE_EXIT_CODE = 141


class OutputFailed(errors.PlacementError):
    """stdout is closed or cannot be written; ``is_pipe``: its reader has closed it."""

    def __init__(self, error: OSError | None) -> None:
        self.is_pipe = isinstance(error, BrokenPipeError)
        reason = "stdout is closed" if error is None else error.strerror
        super().__init__(f"the output cannot be written: {reason}")

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        return PIPE_EXIT_CODE if self.is_pipe else EXIT_CODE


class _Stdout:
    """stdout, or a closed one; raises OutputFailed instead of OSError."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream, self._is_closed = stream or io.StringIO(), stream is None

    def write(self, text: str) -> int:
        """Write, or raise OutputFailed."""
        if self._is_closed:
            raise OutputFailed(None)
        try:
            return self._stream.write(text)
        except OSError as error:
            raise self._failure(error) from error

    def flush(self) -> None:
        """Flush, or raise OutputFailed."""
        try:
            self._stream.flush()
        except OSError as error:
            raise self._failure(error) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _failure(self, error: OSError) -> OutputFailed:
        """Discard what is buffered: Python would fail again when it ends."""
        with contextlib.suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)
        return OutputFailed(error)


class _Stderr:
    """stderr, or a closed one; what cannot be written is lost, and no error."""

    def __init__(self, stream: TextIO | None) -> None:
        #: Writes control sequences unchanged, for progress bars.
        self.raw = stream or io.StringIO()

    def write(self, text: str) -> int:
        """Write as far as possible, with escapes, and in lines that fit a terminal."""
        with contextlib.suppress(OSError):
            self.raw.write(terminal.message(rows.printable_lines(text), self.raw))
            self.raw.flush()
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        """Write lines as far as possible."""
        self.write("".join(lines))

    def flush(self) -> None:
        """Do nothing: ``write`` flushes."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


class _Escape(logging.Filter):
    """Escapes control characters in log records, and removes the passwords of URLs.

    The shell logs the errors of commands too, and keystoneauth the URL of each request.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Accept every record."""
        text = record.getMessage()
        if record.levelno >= logging.ERROR:
            # Errors of libraries too.
            text = errors.shortened(text)
        text = address.in_text(text)
        record.msg, record.args = rows.printable_lines(text), ()
        if record.exc_info and not record.exc_text:
            trace = logging.Formatter().formatException(record.exc_info)
            record.exc_text = rows.printable_lines(address.in_text(trace))
        return True


class _TerminalFormatter(logging.Formatter):
    """Writes records of a handler as before, in lines that fit the terminal; errors in red."""

    def __init__(self, former: logging.Formatter, stream: TextIO) -> None:
        super().__init__()
        self._former, self._stream = former, stream

    def format(self, record: logging.LogRecord) -> str:
        """The text of a record."""
        colour = terminal.RED if record.levelno >= logging.ERROR else ""
        return terminal.message(self._former.format(record), self._stream, colour)


def for_control_sequences() -> TextIO:
    """stderr for control sequences."""
    raw: TextIO = getattr(sys.stderr, "raw", sys.stderr)
    return raw


def write_message(text: str) -> None:
    """Write a line to stderr, as far as possible."""
    _Stderr(sys.stderr).write(f"{text}\n")


def clean_logs() -> None:
    """From now on the log has no control characters of names, and no passwords of URLs."""
    for handler in logging.getLogger().handlers:
        if not any(isinstance(item, _Escape) for item in handler.filters):
            handler.addFilter(_Escape())
            stream: Any = getattr(handler, "stream", None)
            if terminal.is_terminal(stream):
                former = handler.formatter or logging.Formatter()
                handler.setFormatter(_TerminalFormatter(former, stream))


@contextlib.contextmanager
def checked(app: Any) -> Iterator[None]:
    """Use checked streams during the block, and flush stdout at its end.

    ``app`` is cliff's application, which has a ``stdout``. Errors: OutputFailed.
    """
    clean_logs()
    stdout, stderr = _Stdout(sys.stdout), _Stderr(sys.stderr)
    before, app.stdout = app.stdout, stdout
    try:
        with (
            contextlib.redirect_stdout(stdout),
            contextlib.redirect_stderr(stderr),
            _without_unseen_records(),
        ):
            yield
            stdout.flush()
    finally:
        app.stdout = before


@contextlib.contextmanager
def _without_unseen_records() -> Iterator[None]:
    """Skip log records that no handler writes: osc-lib leaves the root logger at DEBUG.

    keystoneauth, urllib3 and this project log each request.
    """
    root = logging.getLogger()
    before = root.level
    root.setLevel(max(before, min((handler.level for handler in root.handlers), default=before)))
    try:
        yield
    finally:
        root.setLevel(before)
