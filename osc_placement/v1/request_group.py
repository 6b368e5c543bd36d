"""The options of ``allocation candidate list`` that belong to the group named before them."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from osc_placement import errors
from osc_placement.v1 import arguments

if TYPE_CHECKING:
    from osc_placement.model import candidate


@dataclasses.dataclass
class Asked:
    """What the command line asks of one group, as it was written."""

    suffix: str = ""
    resource: list[str] = dataclasses.field(default_factory=list)
    required: list[str] = dataclasses.field(default_factory=list)
    forbidden: list[str] = dataclasses.field(default_factory=list)
    member_of: list[str] = dataclasses.field(default_factory=list)
    not_member_of: list[str] = dataclasses.field(default_factory=list)
    aggregate_uuid: list[str] = dataclasses.field(default_factory=list)
    in_tree: list[str] = dataclasses.field(default_factory=list)


def groups(parsed_args: argparse.Namespace) -> list[Asked]:
    """The groups of a command line; the first is the one without a suffix."""
    found: list[Asked] | None = getattr(parsed_args, "groups", None)
    if found is None:
        found = [Asked()]
        parsed_args.groups = found
    return found


class Group(argparse.Action):
    """``--group SUFFIX``: what follows belongs to a new group."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        known = groups(namespace)
        if any(group.suffix == values for group in known):
            parser.error(f"argument --group: group {values!r} is given twice")
        known.append(Asked(values))


class InGroup(argparse.Action):
    """An option that belongs to the group named last."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        getattr(groups(namespace)[-1], self.dest).append(values)


def features(asked: Asked) -> Iterator[tuple[str, str]]:
    """``(feature, option)`` for what this group asks."""
    if asked.suffix:
        numbered = asked.suffix.isdecimal()
        yield ("granular groups" if numbered else "string suffixes"), f"--group {asked.suffix}"
    yield from arguments.trait_features(
        asked.required, asked.forbidden, "candidate required traits"
    )
    yield from arguments.aggregate_features(
        aggregates(asked), asked.not_member_of, "candidate member_of"
    )
    if asked.in_tree:
        yield "candidate in_tree", "--in-tree"


def aggregates(asked: Asked) -> list[str]:
    """The values of ``--member-of``; many of the old ``--aggregate-uuid`` are alternatives."""
    return asked.member_of + arguments.old_aggregates(asked.aggregate_uuid)


def read(asked: Asked, faults: errors.InputErrors) -> candidate.RequestGroup:
    """The request group that is meant, with the provider of ``--in-tree`` as it was written."""
    from osc_placement.model import candidate

    wanted, unwanted = _aggregates(asked)
    named = f"group {asked.suffix}" if asked.suffix else "the unsuffixed group"
    if len(asked.in_tree) > 1:
        faults.add(f"--in-tree is given twice for {named}")
    return candidate.RequestGroup(
        suffix=asked.suffix,
        resources=arguments.resources(asked.resource, faults),
        required=tuple(_set(value) for value in asked.required),
        forbidden=frozenset(asked.forbidden),
        member_of=wanted,
        forbidden_aggregates=unwanted,
        in_tree=asked.in_tree[-1] if asked.in_tree else None,
    )


def _aggregates(asked: Asked) -> tuple[tuple[frozenset[str], ...], frozenset[str]]:
    values = arguments.member_of(aggregates(asked), asked.not_member_of)
    wanted = tuple(_set(value) for value in values if not value.startswith("!"))
    unwanted = frozenset[str]().union(*(_set(value[1:]) for value in values if value[:1] == "!"))
    return wanted, unwanted


def _set(value: str) -> frozenset[str]:
    return frozenset(value.removeprefix("in:").split(","))


def provider_texts(asked: Sequence[Asked]) -> list[str]:
    """Every provider that is named, to be looked up together."""
    return [text for group in asked for text in group.in_tree]
