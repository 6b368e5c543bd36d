"""stdout and stderr that may be closed or full: neither hides what a command has done."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from osc_placement import errors

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
        with self._checked():
            return self._stream.write(text)
        raise AssertionError  # the block above returns or raises

    def flush(self) -> None:
        """Flush, or raise OutputFailed."""
        with self._checked():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextlib.contextmanager
    def _checked(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._discard()
            raise OutputFailed(error) from error

    def _discard(self) -> None:
        """Send what is buffered to the null device: Python would fail again when it ends."""
        with contextlib.suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)


class _Stderr:
    """stderr, or a closed one; what cannot be written is lost, and no error."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream or io.StringIO()

    def write(self, text: str) -> int:
        """Write as far as possible."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
            self._stream.flush()
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        """Write lines as far as possible."""
        self.write("".join(lines))

    def flush(self) -> None:
        """Do nothing: ``write`` flushes."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def write_message(text: str) -> None:
    """Write a line to stderr, as far as possible."""
    _Stderr(sys.stderr).write(f"{text}\n")


@contextlib.contextmanager
def checked(app: Any) -> Iterator[None]:
    """Use checked streams during the block, and flush stdout at its end.

    ``app`` is cliff's application, which has a ``stdout``. Errors: OutputFailed.
    """
    _reserve_descriptors()
    stdout, stderr = _Stdout(sys.stdout), _Stderr(sys.stderr)
    before, app.stdout = app.stdout, stdout
    try:
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            yield
            stdout.flush()
    finally:
        app.stdout = before


def _reserve_descriptors() -> None:
    """Open the null device for closed standard streams: no other file may get their numbers."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
