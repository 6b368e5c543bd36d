"""Runs recorded queries on a snapshot, and on a second state, and compares the candidates."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence

from osc_placement import microversion, server
from osc_placement.client import api, api_errors
from osc_placement.plan import file as plan_file, result as plan_result
from osc_placement.workflows import on_a_copy
from osc_placement.workflows.context import ReadContext
from osc_placement.workflows.snapshot import file, queries


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """The candidates of one query; ``error`` says why Placement refused it."""

    candidates: queries.Candidates = frozenset()
    error: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """A query with its candidates before and after."""

    query: queries.Query
    before: Answer
    after: Answer

    @property
    def lost(self) -> queries.Candidates:
        """The candidates that only the first state has."""
        return self.before.candidates - self.after.candidates

    @property
    def gained(self) -> queries.Candidates:
        """The candidates that only the second state has."""
        return self.after.candidates - self.before.candidates

    @property
    def is_cut_off(self) -> bool:
        """Whether the limit of the query may have cut off its recorded answer."""
        return self.query.answer is not None and len(self.query.answer) == self.query.limit

    @property
    def percent(self) -> float:
        """The share of the candidates that is lost."""
        known = len(self.before.candidates)
        return 100 * len(self.lost) / known if known else 0.0

    @property
    def is_exhausted(self) -> bool:
        """Whether the query had candidates and has none any more."""
        return bool(self.before.candidates) and not self.after.candidates

    def is_affected(self, percent: float) -> bool:
        """Whether it gets no candidate any more, loses more than a share, or is now refused."""
        refused = bool(self.after.error) and not self.before.error
        return self.is_exhausted or refused or self.percent > percent

    @property
    def lost_providers(self) -> frozenset[str]:
        """The UUIDs of the providers that are in no candidate any more."""
        return _providers(self.before) - _providers(self.after)


def _providers(answer: Answer) -> frozenset[str]:
    return frozenset(uuid for item in answer.candidates for uuid in json.loads(item))


@contextlib.contextmanager
def opened(path: pathlib.Path) -> Iterator[api.Client]:
    """A client of the embedded server on a snapshot."""
    with file.opened(path):
        # Only a check: it names an unusable file before the first request.
        pass
    name = str(path.resolve())
    with on_a_copy.opened(lambda: server.create_app(name), name, None) as client:
        yield client


def check_comparable(paths: Sequence[pathlib.Path]) -> None:
    """Refuse to compare pseudonyms with real names. Errors: PlacementError."""
    with contextlib.ExitStack() as stack:
        sides = {str(path): stack.enter_context(file.opened(path)) for path in paths}
        file.check_comparable(sides)


@contextlib.contextmanager
def after_plan(
    path: pathlib.Path, plan_path: pathlib.Path
) -> Iterator[tuple[api.Client, plan_result.RunReport]]:
    """A client of a copy of a snapshot on which a plan was applied, and the report of that.

    Conditions that the plan checks in nova count as met. The snapshot stays unchanged.
    Errors: PlanRefused for a plan of another cloud, or one that changes ports.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "copy.sqlite"
        with file.opened(path) as snapshot, file.explained():
            snapshot.copy_to(str(copy))
        name = str(path.resolve())
        with on_a_copy.opened(lambda: server.create_app(str(copy)), name) as client:
            yield client, on_a_copy.apply_plan(client, plan_file.read(plan_path), plan_path)


def compare(
    before: api.Client,
    after: api.Client,
    source: queries.Source,
    context: ReadContext | None = None,
) -> Iterator[Comparison]:
    """Each query on both states, without its limit, which would hide lost candidates."""
    progress = (context or ReadContext()).progress
    progress.start("replaying queries", len(source.queries))
    for query in source.queries:
        version = _version(query)
        yield Comparison(
            query,
            ask(before, query.unlimited, version),
            ask(after, query.unlimited, version),
        )
        progress.advance()


def compare_with_recording(
    client: api.Client, source: queries.Source, context: ReadContext | None = None
) -> Iterator[Comparison]:
    """The recorded answer of each query, and its answer on a state.

    The state answers without limit: a recorded answer that a limit cut off is a part of the
    complete one.
    """
    progress = (context or ReadContext()).progress
    progress.start("replaying queries", len(source.queries))
    for query in source.queries:
        progress.advance()
        if query.answer is None:
            continue
        yield Comparison(query, Answer(query.answer), ask(client, query.unlimited, _version(query)))


def ask(client: api.Client, text: str, version: microversion.Microversion) -> Answer:
    """The candidates of one query. Requests: one GET. Errors: none that concern the query."""
    try:
        reply = client.transport.send("GET", f"/allocation_candidates?{text}", version=version)
        return Answer(queries.candidates(reply.body))
    except api_errors.ApiError as error:
        return Answer(error=error.detail)


def names_of(clients: Sequence[api.Client]) -> Mapping[str, str]:
    """``{provider uuid: name}`` of all providers. Requests: one per client."""
    return {item.uuid: item.name for client in clients for item in client.list_providers()}


def _version(query: queries.Query) -> microversion.Microversion:
    return microversion.Microversion.parse(query.version) if query.version else microversion.MAXIMUM
