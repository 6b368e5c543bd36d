"""``resource provider trait matrix``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from osc_placement import microversion
from osc_placement.model.name import and_more
from osc_placement.v1 import base, plan_command, services
from osc_placement.v1.options import selector
from osc_placement.v1.output import progress, tables

if TYPE_CHECKING:
    from osc_placement.model import provider
    from osc_placement.workflows.trait_matrix import Group, TraitMatrix

#: How many groups one table compares; 80 columns have room for these beside a trait's name.
_COMPARED = 8


class ShowTraitMatrix(base.ReportLister):
    """Show which resource providers have which traits

    The table compares groups of providers that have equal traits: x where the providers of a
    group have a trait. The other formats have one row per provider and one column per trait.
    """

    writes = False
    default_version: ClassVar[microversion.Microversion] = microversion.MAXIMUM
    required_feature = "provider required traits"
    example = """\
openstack resource provider trait matrix --all --trait "CUSTOM_*"
openstack resource provider trait matrix --member-of az1 --differing"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--trait",
            metavar="<pattern>",
            action="append",
            default=[],
            help="Only traits with a name that matches this pattern, as in ``COMPUTE_*``. May be"
            " repeated.",
        )
        parser.add_argument(
            "--differing",
            action="store_true",
            help="Only traits that some of the providers have and others do not have",
        )
        plan_command.add_workers(parser)
        selector.add_selector(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        from osc_placement.workflows import trait_matrix
        from osc_placement.workflows.context import ReadContext

        selected = selector.read_selector(parsed_args)
        client = self.connect(list(selector.features(parsed_args)))
        with progress.shown(quiet=self.is_quiet) as shown:
            context = ReadContext(parsed_args.workers, shown, services.host_aggregates(self))
            found = trait_matrix.observe_matrix(client, selected, parsed_args.trait, context)
        self.summary = [
            f"None of the selected providers has a trait that matches {glob}"
            for glob in found.without_match(parsed_args.trait)
        ]
        self._matrix = found.differing() if parsed_args.differing else found
        return ("name", "uuid", *self._matrix.traits), list(_rows(self._matrix))

    def answer_tables(self, column_names: Sequence[str], data: Any) -> Sequence[tables.Table]:
        """The groups, and the matrix."""
        return list(_tables(self._matrix, self._matrix.groups()))


def _rows(matrix: TraitMatrix) -> Iterator[tuple[Any, ...]]:
    for item, traits in matrix.traits_of.items():
        yield (item.name, item.uuid, *(name in traits for name in matrix.traits))


def _tables(matrix: TraitMatrix, groups: Sequence[Group]) -> Iterator[tables.Table]:
    yield tables.Table(
        "Groups of providers with equal traits",
        ("group", "providers", "names", "traits"),
        [
            (number, len(group.providers), _names(group.providers), len(group.traits))
            for number, group in enumerate(groups, 1)
        ],
    )
    for start in range(0, len(groups), _COMPARED):
        compared = groups[start : start + _COMPARED]
        numbers = tuple(str(number) for number in range(start + 1, start + 1 + len(compared)))
        yield tables.Table(
            f"Traits of the groups {numbers[0]} to {numbers[-1]}" if numbers[1:] else "Traits",
            ("trait", *numbers),
            [
                (name, *("x" if name in group.traits else "" for group in compared))
                for name in matrix.traits
            ],
        )


def _names(providers: Sequence[provider.Provider]) -> str:
    return and_more([provider.name for provider in providers])
