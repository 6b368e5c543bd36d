"""An event loop whose cost grows with events, not with open connections.

waitress asks every open connection for its state before each wait. With thousands of idle
connections that takes longer than the requests.
"""

from __future__ import annotations

import select
from typing import Any

import waitress.wasyncore

_READ = select.EPOLLIN | select.EPOLLPRI


class Sockets(dict[int, Any]):
    """waitress's table of its sockets, ``{file descriptor: dispatcher}``."""

    def __init__(self) -> None:
        super().__init__()
        self._epoll = select.epoll()
        self._watched: dict[int, int] = {}
        self._changed: set[int] = set()

    def __setitem__(self, descriptor: int, dispatcher: Any) -> None:
        super().__setitem__(descriptor, dispatcher)
        self._changed.add(descriptor)

    def __delitem__(self, descriptor: int) -> None:
        super().__delitem__(descriptor)
        self._changed.discard(descriptor)
        if self._watched.pop(descriptor, 0):
            self._epoll.unregister(descriptor)

    def mark_changed(self, descriptor: int) -> None:
        """Ask a socket for its state before the next wait."""
        self._changed.add(descriptor)

    def turn(self, seconds: float) -> None:
        """Wait once, at most ``seconds``, and handle the events."""
        for descriptor in tuple(self._changed):
            self._watch(descriptor, self[descriptor])
        for descriptor, events in self._epoll.poll(seconds):
            dispatcher = self.get(descriptor)
            if dispatcher is not None:
                self._changed.add(descriptor)
                waitress.wasyncore.readwrite(dispatcher, events)

    def close(self) -> None:
        """Close every socket."""
        waitress.wasyncore.close_all(self, ignore_all=True)
        self._epoll.close()

    def _watch(self, descriptor: int, dispatcher: Any) -> None:
        # Clear the mark first: a worker thread may change the state at any time.
        if not (dispatcher.accepting or getattr(dispatcher, "requests", None)):
            self._changed.discard(descriptor)
        events = _READ if dispatcher.readable() else 0
        if dispatcher.writable() and not dispatcher.accepting:
            events |= select.EPOLLOUT
        before = self._watched.get(descriptor, 0)
        if events == before:
            return
        if not before:
            self._epoll.register(descriptor, events)
        elif events:
            self._epoll.modify(descriptor, events)
        else:
            self._epoll.unregister(descriptor)
        self._watched[descriptor] = events
