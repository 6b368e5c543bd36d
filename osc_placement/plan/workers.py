# SPDX-License-Identifier: Apache-2.0
"""Threads: a bounded pool, and a Ctrl-C that lets requests under way end."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import signal
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from osc_placement.client import retry

T = TypeVar("T")
R = TypeVar("R")

#: Threads by default: as many as requests.
DEFAULT = retry.MOST

#: Calls per worker that ``each`` starts before their results are used: memory stays bounded.
_AHEAD = 8


@contextlib.contextmanager
def pool(workers: int) -> Iterator[concurrent.futures.ThreadPoolExecutor]:
    """A pool that begins nothing more after an error of the block.

    Calls under way end first, so that no thread writes after the block.
    """
    executor = concurrent.futures.ThreadPoolExecutor(workers)
    try:
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)


def each(call: Callable[[T], R], items: Iterable[T], workers: int = DEFAULT) -> Iterator[R]:
    """``call`` of every item, ``workers`` at a time; the results in the items' order.

    Items are taken, and results kept, only a few ahead of the caller. One worker is the caller.
    """
    if workers == 1:
        yield from map(call, items)
        return
    pending: collections.deque[concurrent.futures.Future[R]] = collections.deque()
    with pool(workers) as executor:
        for item in items:
            pending.append(executor.submit(call, item))
            if len(pending) >= workers * _AHEAD:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


@contextlib.contextmanager
def interruptible(*events: threading.Event) -> Iterator[None]:
    """Ctrl-C sets ``events``; a second one raises KeyboardInterrupt.

    Without effect outside the main thread, which cannot receive signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_interrupt(_: int, __: types.FrameType | None) -> None:
        if all(event.is_set() for event in events):
            raise KeyboardInterrupt
        for event in events:
            event.set()

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
