"""The options of ``allocation candidate list`` that belong to the preceding ``--group``."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from osc_placement import errors
from osc_placement.v1.options import arguments

if TYPE_CHECKING:
    from osc_placement.model import candidate


@dataclasses.dataclass
class GroupArguments:
    """The options of one group, as they are on the command line."""

    suffix: str = ""
    resource: list[str] = dataclasses.field(default_factory=list)
    required: list[str] = dataclasses.field(default_factory=list)
    forbidden: list[str] = dataclasses.field(default_factory=list)
    member_of: list[str] = dataclasses.field(default_factory=list)
    not_member_of: list[str] = dataclasses.field(default_factory=list)
    aggregate_uuid: list[str] = dataclasses.field(default_factory=list)
    in_tree: list[str] = dataclasses.field(default_factory=list)


def groups(parsed_args: argparse.Namespace) -> list[GroupArguments]:
    """The groups of a command line; the first one has no suffix."""
    found: list[GroupArguments] | None = getattr(parsed_args, "groups", None)
    if found is None:
        found = [GroupArguments()]
        parsed_args.groups = found
    return found


class Group(argparse.Action):
    """``--group SUFFIX``: the following options belong to a new group."""

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
        known.append(GroupArguments(values))


class InGroup(argparse.Action):
    """An option of the preceding group."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        getattr(groups(namespace)[-1], self.dest).append(values)


def features(group: GroupArguments) -> Iterator[tuple[str, str]]:
    """``(feature, option)`` that a group requires."""
    if group.suffix:
        numbered = group.suffix.isdecimal()
        yield ("granular groups" if numbered else "string suffixes"), f"--group {group.suffix}"
    yield from arguments.trait_features(
        group.required, group.forbidden, "candidate required traits"
    )
    yield from arguments.aggregate_features(
        aggregates(group), group.not_member_of, "candidate member_of"
    )
    if group.in_tree:
        yield "candidate in_tree", "--in-tree"


def aggregates(group: GroupArguments) -> list[str]:
    """The values of ``--member-of``, and those of ``--aggregate-uuid`` as one alternative."""
    return group.member_of + arguments.old_aggregates(group.aggregate_uuid)


def read(group: GroupArguments, problems: errors.InputErrors) -> candidate.RequestGroup:
    """The request group; the provider of ``--in-tree`` is not looked up yet."""
    from osc_placement.model import candidate

    member_of, forbidden = _aggregates(group)
    title = f"group {group.suffix}" if group.suffix else "the unsuffixed group"
    if len(group.in_tree) > 1:
        problems.add(f"--in-tree is given twice for {title}")
    return candidate.RequestGroup(
        suffix=group.suffix,
        resources=arguments.resources(group.resource, problems),
        required=tuple(_set(value) for value in group.required),
        forbidden=frozenset(group.forbidden),
        member_of=member_of,
        forbidden_aggregates=forbidden,
        in_tree=group.in_tree[-1] if group.in_tree else None,
    )


def _aggregates(group: GroupArguments) -> tuple[tuple[frozenset[str], ...], frozenset[str]]:
    values = arguments.member_of(aggregates(group), group.not_member_of)
    required = tuple(_set(value) for value in values if not value.startswith("!"))
    forbidden = frozenset[str]().union(*(_set(value[1:]) for value in values if value[:1] == "!"))
    return required, forbidden


def _set(value: str) -> frozenset[str]:
    return frozenset(value.removeprefix("in:").split(","))


def provider_texts(groups: Sequence[GroupArguments]) -> list[str]:
    """The names and UUIDs of all providers of ``--in-tree``, for one look-up."""
    return [text for group in groups for text in group.in_tree]
