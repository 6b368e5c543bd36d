"""Waiting for sockets, at a cost that grows with what happens and not with what is open.

waitress asks every open connection before each wait what it waits for: with thousands of
idle ones that takes longer than the requests.
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
        self._unsettled: set[int] = set()

    def __setitem__(self, descriptor: int, dispatcher: Any) -> None:
        super().__setitem__(descriptor, dispatcher)
        self._unsettled.add(descriptor)

    def __delitem__(self, descriptor: int) -> None:
        super().__delitem__(descriptor)
        self._unsettled.discard(descriptor)
        if self._watched.pop(descriptor, 0):
            self._epoll.unregister(descriptor)

    def look_at(self, descriptor: int) -> None:
        """Ask a socket at the next turn what it waits for: something about it has changed."""
        self._unsettled.add(descriptor)

    def turn(self, seconds: float) -> None:
        """Wait once, at most so long, and do what there is to do."""
        for descriptor in tuple(self._unsettled):
            self._watch(descriptor, self[descriptor])
        for descriptor, happened in self._epoll.poll(seconds):
            dispatcher = self.get(descriptor)
            if dispatcher is not None:
                self._unsettled.add(descriptor)
                waitress.wasyncore.readwrite(dispatcher, happened)

    def close(self) -> None:
        """Close every socket."""
        waitress.wasyncore.close_all(self, ignore_all=True)
        self._epoll.close()

    def _watch(self, descriptor: int, dispatcher: Any) -> None:
        # In this order: while a request is worked on, all else may change at any time.
        if not (dispatcher.accepting or getattr(dispatcher, "requests", None)):
            self._unsettled.discard(descriptor)
        wanted = _READ if dispatcher.readable() else 0
        if dispatcher.writable() and not dispatcher.accepting:
            wanted |= select.EPOLLOUT
        before = self._watched.get(descriptor, 0)
        if wanted == before:
            return
        if not before:
            self._epoll.register(descriptor, wanted)
        elif wanted:
            self._epoll.modify(descriptor, wanted)
        else:
            self._epoll.unregister(descriptor)
        self._watched[descriptor] = wanted
