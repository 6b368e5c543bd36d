"""Making lots of demands: what stays together, and where it could go by the rules."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from osc_placement.workflows.reshape.assignment import demand, item as assignment_item


class _Piece(NamedTuple):
    """A lot to be: amounts of one consumer on one source that stay together."""

    consumer: str
    source: str
    resources: tuple[tuple[str, int], ...]


def problem(
    demands: Iterable[demand.Demand], targets: Sequence[demand.Target], rules: demand.Rules
) -> assignment_item.Problem:
    """Cut the demands into lots; sorted, whatever order they come in. Adds up doubled ones.

    A lot without options fits nowhere, even alone.
    """
    pieces = list(_pieces(demands, rules))
    classes = sorted({name for piece in pieces for name, _ in piece.resources})
    rooms = tuple({name: target.room(name) for name in classes} for target in targets)
    return assignment_item.Problem(_Rulebook(pieces, targets).lots(), tuple(targets), rooms)


def _pieces(demands: Iterable[demand.Demand], rules: demand.Rules) -> Iterator[_Piece]:
    merged: dict[tuple[str, str], collections.Counter[str]] = {}
    for item in demands:
        wanted = {name: amount for name, amount in item.resources.items() if amount > 0}
        merged.setdefault((item.consumer, item.source), collections.Counter()).update(wanted)
    for (consumer, source), resources in sorted(merged.items()):
        bound = tuple(sorted(item for item in resources.items() if item[0] in rules.together))
        if bound:
            yield _Piece(consumer, source, bound)
        for name, amount in sorted(resources.items()):
            if name not in rules.together:
                yield _Piece(consumer, source, ((name, amount),))


class _Rulebook:
    """Where each piece could go."""

    def __init__(self, pieces: Sequence[_Piece], targets: Sequence[demand.Target]) -> None:
        self._pieces = pieces
        self._targets = targets
        self._pieces_of = collections.Counter(
            (piece.consumer, name) for piece in pieces for name, _ in piece.resources
        )

    def lots(self) -> tuple[assignment_item.Item, ...]:
        return tuple(
            assignment_item.Item(*piece, self._options(piece), self._shares(piece))
            for piece in self._pieces
        )

    def _shares(self, piece: _Piece) -> bool:
        return any(
            self._pieces_of[piece.consumer, name] > 1
            or any(assignment_item.held(target, piece.consumer, name) for target in self._targets)
            for name, _ in piece.resources
        )

    def _options(self, piece: _Piece) -> tuple[int, ...]:
        shares = self._shares(piece)
        return tuple(
            index
            for index, target in enumerate(self._targets)
            if _leads(piece, target)
            and all(amount <= target.room(name) for name, amount in piece.resources)
            and assignment_item.suit_units(piece.resources, piece.consumer, shares, target)
        )


def _leads(piece: _Piece, target: demand.Target) -> bool:
    """Whether moves lead there for all of a piece."""
    taken = target.takes.get(piece.source, frozenset())
    return all(name in taken and name in target.inventories for name, _ in piece.resources)
