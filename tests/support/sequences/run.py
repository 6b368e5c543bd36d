# SPDX-License-Identifier: Apache-2.0
"""One random sequence, sent to openstack-placement and to the reference server."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

from osc_placement.testing import service
from tests.support.peer import process
from tests.support.sequences import compare, generate


class Difference(NamedTuple):
    """Two different responses; ``status`` says whether the states may differ."""

    number: int
    request: generate.Request
    text: str
    status: bool

    def __str__(self) -> str:
        return f"#{self.number} {self.request}\n{self.text}"


def differences(seed: int, length: int, state: pathlib.Path) -> Iterator[Difference]:
    """All differences of a sequence; it ends where the statuses differ.

    ``state`` is an empty folder for openstack-placement, or one that it prepared. Each sequence has
    its own process, because the service caches names.
    """
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(process.running(process.PLACEMENT, state, "legacy-rbac"))
        ours = stack.enter_context(service.LoopbackPlacement(legacy_rbac=True))
        real_server, our_server = compare.Server(url), compare.Server(ours.url)
        stack.callback(real_server.close)
        stack.callback(our_server.close)
        with ours.app.repository.read() as base:
            generator = generate.Generator(seed, base)
        for number in range(length):
            request = generator.next()
            real, own = real_server(request), our_server(request)
            text = compare.difference(real, own, request.body)
            if text:
                yield Difference(number, request, text, real.status != own.status)
            if real.status != own.status:
                return
