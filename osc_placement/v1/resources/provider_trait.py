# SPDX-License-Identifier: Apache-2.0
"""``resource provider trait list | set | delete | add | remove | compare``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from osc_placement.client import lookup, retry
from osc_placement.model import name
from osc_placement.model.name import and_more
from osc_placement.plan.guards import MANY, STANDARD_TRAITS
from osc_placement.v1.common import arguments, base, plan_command, services
from osc_placement.v1.output import progress, rows, tables
from osc_placement.v1.resources import provider_aggregate

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.plan.plan import ObservedPlan
    from osc_placement.workflows.explain.trait_matrix import TraitGroup, TraitMatrix


class ListResourceProviderTrait(base.Lister):
    """List the traits of a resource provider"""

    writes = False
    required_feature = "traits"
    example = "openstack resource provider trait list rack1-node7"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        client = self.connect()
        present = client.list_provider_traits(lookup.provider_uuid(client, parsed_args.uuid))
        return ("name",), rows.names(present.traits)


class SetResourceProviderTrait(base.Lister):
    """Replace the traits of a resource provider

    Traits that are not given are removed, with a warning about standard traits. To change
    single traits, use "resource provider trait add" and "remove".
    """

    required_feature = "traits"
    guards = (MANY,)
    example = """\
openstack resource provider trait set rack1-node7 \\
    --trait HW_CPU_X86_AVX2 --trait CUSTOM_GOLD"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser, "; with --aggregate, UUID of an aggregate")
        _add_trait(parser, required=False)
        arguments.add_flag(
            parser, "--aggregate", "Set these traits on every member of the aggregate."
        )
        arguments.add_max_percent(
            parser, "the providers of the cloud that have a trait, with --aggregate,"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        if parsed_args.max_percent is not None and not parsed_args.aggregate:
            self.usage_error("argument --max-percent: requires --aggregate")
        client = self.connect()
        traits = list(dict.fromkeys(parsed_args.trait))
        if not parsed_args.aggregate:
            uuid = lookup.provider_uuid(client, parsed_args.uuid)
            before, after = _set(client, uuid, traits)
            self._warn_of_removed({*before} - {*after})
            return ("name",), rows.names(after)
        from osc_placement.workflows.batch import batch

        members = provider_aggregate.members(client, parsed_args.uuid)
        planned = batch.plan_set_traits(
            client, members, traits, count_existing=parsed_args.max_percent is not None
        )
        planned = provider_aggregate.limited(client, planned, parsed_args)
        data = provider_aggregate.apply_each(
            client, members, "set traits", planned, lambda state: rows.names(state.names())
        )
        removed = {trait for item in planned.plan.changes for trait in item.before.names()}
        self._warn_of_removed(removed - {*traits})
        return ("resource_provider", "name"), data

    def _warn_of_removed(self, removed: Iterable[str]) -> None:
        """Warn about standard traits: most belong to nova's compute drivers."""
        standard = sorted(item for item in removed if not item.startswith(name.CUSTOM_PREFIX))
        if standard and not self.is_quiet:
            is_one = len(standard) == 1
            sys.stderr.write(
                f"Warning: the standard {'trait' if is_one else 'traits'} {', '.join(standard)}"
                f" {'was' if is_one else 'were'} removed; nova-compute sets those of its driver"
                " again. To change single traits, use 'resource provider"
                " trait add' and 'resource provider trait remove'\n"
            )


class DeleteResourceProviderTrait(base.Command):
    """Remove all traits from a resource provider

    The request has no generation: it also removes traits that other clients add concurrently.
    """

    required_feature = "traits"
    example = "openstack resource provider trait delete rack1-node7"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_provider(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        client = self.connect()
        client.delete_provider_traits(lookup.provider_uuid(client, parsed_args.uuid))


class AddTrait(plan_command.SelectorCommand):
    """Add traits to one or more resource providers

    Other traits of the providers do not change.
    """

    required_feature = "provider required traits"
    example = """\
openstack resource provider trait add --trait CUSTOM_GOLD --create \\
    --member-of <aggregate>
openstack resource provider trait add --trait CUSTOM_GOLD rack1-node7 \\
    rack1-node8"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_trait(parser, required=True)
        arguments.add_flag(parser, "--create", "Create custom traits that do not exist")
        arguments.add_selector(parser)
        self.add_change_options(parser)

    def plan(self, run: plan_command.CommandRun, parsed_args: argparse.Namespace) -> ObservedPlan:
        from osc_placement.workflows.batch import batch

        return batch.plan_traits(
            run.client,
            self.selected,
            add=parsed_args.trait,
            create=parsed_args.create,
            context=run.context,
        )


class RemoveTrait(plan_command.SelectorCommand):
    """Remove traits from one or more resource providers

    Other traits of the providers do not change. Standard traits belong to nova's compute
    drivers: the command skips them unless --allow permits their removal.
    """

    required_feature = "provider required traits"
    guards = (STANDARD_TRAITS, MANY)
    has_default_limit = False
    example = """\
openstack resource provider trait remove --trait CUSTOM_GOLD \\
    --required CUSTOM_GOLD"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_trait(parser, required=True)
        arguments.add_selector(parser)
        self.add_change_options(parser)

    def plan(self, run: plan_command.CommandRun, parsed_args: argparse.Namespace) -> ObservedPlan:
        from osc_placement.workflows.batch import batch

        return batch.plan_traits(
            run.client,
            self.selected,
            remove=parsed_args.trait,
            allow=parsed_args.allow,
            count_existing=parsed_args.max_percent is not None,
            context=run.context,
        )


def _add_trait(parser: argparse.ArgumentParser, *, required: bool) -> None:
    arguments.add_repeated(parser, "--trait", "<trait>", "Name of the trait.", required=required)


def _set(
    client: api.Client, uuid: str, traits: Sequence[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """Replace the traits of a provider; return those before and after."""

    def attempt() -> tuple[Sequence[str], Sequence[str]]:
        before = client.list_provider_traits(uuid)
        after = client.replace_provider_traits(uuid, before.generation, traits)
        return before.traits, after.traits

    return retry.on_conflict(attempt)


#: How many groups one table compares; 80 columns have room for these beside a trait's name.
_COMPARED = 8


class CompareTraits(base.ReportLister):
    """Show which resource providers have which traits

    The table compares groups of providers that have equal traits: x where the providers of a
    group have a trait. The other formats have one row per provider and one column per trait.
    """

    required_feature = "provider required traits"
    example = """\
openstack resource provider trait compare --all --trait "CUSTOM_*"
openstack resource provider trait compare --member-of az1 --differing"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_repeated(
            parser,
            "--trait",
            "<pattern>",
            "Only traits with a name that matches this pattern, as in ``COMPUTE_*``. May be"
            " repeated.",
        )
        arguments.add_flag(
            parser,
            "--differing",
            "Only traits that some of the providers have and others do not have",
        )
        arguments.add_selector(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        from osc_placement.workflows.explain import trait_matrix

        selected = arguments.read_selector(parsed_args)
        client = self.connect(list(arguments.selector_features(parsed_args)))
        with progress.shown(quiet=self.is_quiet) as shown:
            context = services.read_context(self, parsed_args.workers, shown)
            matrix = trait_matrix.observe_matrix(client, selected, parsed_args.trait, context)
        self.summary = [
            f"None of the selected providers has a trait that matches {glob}"
            for glob in matrix.without_match(parsed_args.trait)
        ]
        if parsed_args.differing:
            matrix = matrix.differing()
        self.answer = list(_tables(matrix, matrix.groups()))
        return ("name", "uuid", *matrix.traits), [
            (item.name, item.uuid, *(name in traits for name in matrix.traits))
            for item, traits in matrix.traits_of.items()
        ]


def _tables(matrix: TraitMatrix, groups: Sequence[TraitGroup]) -> Iterator[tables.Table]:
    yield tables.Table(
        "Groups of providers with equal traits",
        ("group", "providers", "names", "traits"),
        [
            (
                number,
                len(group.providers),
                and_more([item.name for item in group.providers]),
                len(group.traits),
            )
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
