"""A cloud in a temporary file, for what needs every record of it."""

from __future__ import annotations

import contextlib
import pathlib
import tempfile
from collections.abc import Iterator

from osc_placement.client import api
from osc_placement.workflows.context import ReadContext
from osc_placement.workflows.snapshot import replay, save


@contextlib.contextmanager
def saved(
    client: api.Client, context: ReadContext, *, owners: bool = True
) -> Iterator[pathlib.Path]:
    """The file, during the block. Requests: those of ``save.save``."""
    with tempfile.TemporaryDirectory() as folder:
        request = save.SaveRequest(pathlib.Path(folder) / "live.sqlite", owners=owners)
        save.save(client, request, context)
        yield request.path


@contextlib.contextmanager
def copied(client: api.Client, context: ReadContext) -> Iterator[api.Client]:
    """A client of the file, at the microversion of ``client``. Requests: those of ``save.save``."""
    with saved(client, context) as path, replay.opened(path) as copy:
        yield copy.at(client.microversion)
