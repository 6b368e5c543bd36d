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
import pathlib
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

    def __init__(self, error: OSError) -> None:
        self.is_pipe = isinstance(error, BrokenPipeError)
        reason = error.strerror or "stdout is closed"
        super().__init__(f"the output cannot be written: {reason}")

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        return PIPE_EXIT_CODE if self.is_pipe else EXIT_CODE


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


class _Formatter(logging.Formatter):
    """Writes the records of a handler as before, without control characters and passwords of URLs.

    The shell logs the errors of commands too, and keystoneauth the URL of each request. On a
    terminal the lines fit, and errors are red.
    """

    def __init__(self, handler: logging.Handler) -> None:
        super().__init__()
        self._former = handler.formatter or logging.Formatter()
        self._stream: Any = getattr(handler, "stream", None)

    def format(self, record: logging.LogRecord) -> str:
        """The text of a record."""
        is_error = record.levelno >= logging.ERROR
        text = self._former.format(record)
        if is_error and not record.exc_info:
            # Errors of libraries too.
            text = errors.shortened(text)
        text = rows.printable_lines(address.in_text(text))
        return terminal.message(text, self._stream, terminal.RED if is_error else "")


def write_message(text: str) -> None:
    """Write a line to stderr, as far as possible."""
    _Stderr(sys.stderr).write(f"{text}\n")


def clean_logs() -> None:
    """From now on the log has no control characters of names, and no passwords of URLs."""
    for handler in logging.getLogger().handlers:
        if not isinstance(handler.formatter, _Formatter):
            handler.setFormatter(_Formatter(handler))


@contextlib.contextmanager
def checked(app: Any) -> Iterator[None]:
    """Use the checked stderr during the block, and flush stdout at its end.

    ``app`` is cliff's application, which has a ``stdout``. Errors: OutputFailed.
    """
    clean_logs()
    with contextlib.ExitStack() as stack:
        # Nothing can be written to a file that is open for reading.
        stdout = sys.stdout or stack.enter_context(pathlib.Path(os.devnull).open())
        stack.callback(setattr, app, "stdout", app.stdout)
        app.stdout = stdout
        stack.enter_context(contextlib.redirect_stdout(stdout))
        stack.enter_context(contextlib.redirect_stderr(_Stderr(sys.stderr)))
        stack.enter_context(_without_unseen_records())
        try:
            yield
            stdout.flush()
        except OSError as error:
            # That of a file has its name.
            if error.filename is not None:
                raise
            _discard(stdout)
            raise OutputFailed(error) from error


def _discard(stream: TextIO) -> None:
    """Discard what is buffered: Python would fail again when it ends."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


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
