# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at a moment when no code handles it, such as during imports: one line, no traceback."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any


def install() -> None:
    """Print one line for a KeyboardInterrupt that nothing handles.

    Python then ends the process by SIGINT, which shells report as exit code 130. Other errors go
    to the hooks that were there before.
    """
    sys.excepthook = functools.partial(_on_error, sys.excepthook)
    sys.unraisablehook = functools.partial(_on_unraisable, sys.unraisablehook)


def _on_error(
    before: Callable[..., Any], kind: type[BaseException], error: BaseException, trace: Any
) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        before(kind, error, trace)
    elif sys.stderr is not None:
        sys.stderr.write("Interrupted\n")


def _on_unraisable(before: Callable[..., Any], raised: Any) -> None:
    """An error in a destructor, or while the process ends."""
    if not issubclass(raised.exc_type, KeyboardInterrupt):
        before(raised)
