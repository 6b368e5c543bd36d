"""Servers that must share a host: the options of all of them together. Pure."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence

from osc_placement.search import placing
from osc_placement.workflows.cloud import options


@dataclasses.dataclass(frozen=True, slots=True)
class JointOption(placing.Option):
    """An option of one host for each of several servers; ``parts`` are in their order."""

    parts: tuple[placing.Option, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class JointOptions:
    """``is_complete``: no host has more than ``options.PER_TREE`` of them."""

    options: tuple[JointOption, ...]
    is_complete: bool = True


def find(
    kinds: Sequence[Hashable], known: Mapping[Hashable, Sequence[placing.Option]]
) -> JointOptions:
    """The joint options of servers of these kinds; ``known`` are the options of each kind.

    Servers of one kind are next to each other in ``kinds``, and are interchangeable.
    """
    numbers = collections.Counter(kinds)
    by_root = {kind: _by_root(known[kind]) for kind in numbers}
    roots = set.intersection(*(set(each) for each in by_root.values()))
    found: list[JointOption] = []
    is_complete = True
    for root in sorted(roots):
        choices = _choices({kind: by_root[kind][root] for kind in numbers}, numbers)
        found += (_joint(root, each) for each in itertools.islice(choices, options.PER_TREE))
        is_complete = is_complete and next(choices, None) is None
    return JointOptions(tuple(found), is_complete)


def _by_root(known: Sequence[placing.Option]) -> Mapping[str, list[placing.Option]]:
    found: dict[str, list[placing.Option]] = {}
    for option in known:
        found.setdefault(option.root_uuid, []).append(option)
    return found


def _choices(
    known: Mapping[Hashable, Sequence[placing.Option]], numbers: Mapping[Hashable, int]
) -> Iterator[tuple[placing.Option, ...]]:
    """An option for each server, without the other orders of servers of one kind."""
    alike = (
        itertools.combinations_with_replacement(known[kind], number)
        for kind, number in numbers.items()
    )
    return (tuple(itertools.chain.from_iterable(each)) for each in itertools.product(*alike))


def _joint(root: str, parts: tuple[placing.Option, ...]) -> JointOption:
    amounts: collections.Counter[placing.Slot] = collections.Counter()
    for option in parts:
        amounts.update(option.amounts)
    return JointOption(root, dict(amounts), parts=parts)
