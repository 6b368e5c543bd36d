"""``resource provider inventory amend``, ``… trait add | remove``, ``… aggregate add | remove``."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from osc_placement.plan import guards as plan_guards
from osc_placement.v1 import change, selector

if TYPE_CHECKING:
    from osc_placement.workflows.batch import plan


class AmendInventory(change.Batch):
    """Change fields of inventories on one provider or many

    What is not named stays as it is. A value may be relative (``+=2``, ``-=2``, ``*=0.9``):
    it is made absolute when the provider is first read, so that nothing is ever added
    twice; fractions of amounts are rounded down. What would put a provider over its
    capacity, or reserve more than its total, is left alone unless it is allowed.
    """

    guards = (plan_guards.OVER_CAPACITY, plan_guards.RESERVED_ABOVE_TOTAL)
    example = """\
openstack resource provider inventory amend --member-of <aggregate> \\
    --resource VCPU:allocation_ratio=4 \\
    --resource MEMORY_MB:reserved+=1024 --dry-run
openstack resource provider inventory amend rack1-node7 \\
    --resource DISK_GB:total*=0.9"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--resource",
            metavar="<resource_class>:<field>=<value>",
            action="append",
            required=True,
            help="What to change: a field of an inventory (total, reserved, min_unit, max_unit,"
            " step_size, allocation_ratio) and its value; also with ``+=``, ``-=`` and ``*=``."
            " May be repeated.",
        )
        parser.add_argument(
            "--create",
            action="store_true",
            help="Make the inventory of a class that a provider lacks; it needs a total",
        )
        selector.add_selector(parser)
        self.add_change_options(parser)

    def planner(self, parsed_args: argparse.Namespace) -> plan.Planner:
        from osc_placement.workflows.batch import plan

        return functools.partial(
            plan.plan_amend,
            expressions=parsed_args.resource,
            create=parsed_args.create,
            allow=parsed_args.allow,
        )

    def asked(self, parsed_args: argparse.Namespace) -> list[str]:
        return [word for item in parsed_args.resource for word in ("--resource", item)]


class _TraitBatch(change.Batch):
    required_feature = "provider required traits"

    def add_trait_argument(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--trait",
            metavar="<trait>",
            action="append",
            required=True,
            help="Name of the trait. May be repeated.",
        )

    def asked(self, parsed_args: argparse.Namespace) -> list[str]:
        return [word for item in parsed_args.trait for word in ("--trait", item)]


class AddTrait(_TraitBatch):
    """Add traits to one provider or many

    The traits that a provider has already stay, also when others change them meanwhile.
    """

    example = """\
openstack resource provider trait add --trait CUSTOM_GOLD --create \\
    --member-of <aggregate>
openstack resource provider trait add \\
    --trait CUSTOM_GOLD rack1-node7 rack1-node8"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        self.add_trait_argument(parser)
        parser.add_argument(
            "--create", action="store_true", help="Make custom traits that the cloud lacks"
        )
        selector.add_selector(parser)
        self.add_change_options(parser)

    def planner(self, parsed_args: argparse.Namespace) -> plan.Planner:
        from osc_placement.workflows.batch import plan

        return functools.partial(plan.plan_traits, add=parsed_args.trait, create=parsed_args.create)


class RemoveTrait(_TraitBatch):
    """Remove traits from one provider or many

    All other traits stay. A standard trait belongs to the compute drivers and to nova: it
    is left alone unless that is allowed.
    """

    guards = (plan_guards.STANDARD_TRAITS,)
    example = """\
openstack resource provider trait remove --trait CUSTOM_GOLD \\
    --required CUSTOM_GOLD"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        self.add_trait_argument(parser)
        selector.add_selector(parser)
        self.add_change_options(parser)

    def planner(self, parsed_args: argparse.Namespace) -> plan.Planner:
        from osc_placement.workflows.batch import plan

        return functools.partial(
            plan.plan_traits, remove=parsed_args.trait, allow=parsed_args.allow
        )


class _AggregateBatch(change.Batch):
    required_feature = "aggregate generation"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--aggregate",
            metavar="<aggregate>",
            action="append",
            required=True,
            help="UUID of the aggregate, or name or id of a nova host aggregate. May be repeated.",
        )
        selector.add_selector(parser)
        self.add_change_options(parser)

    def features(self, parsed_args: argparse.Namespace) -> Sequence[tuple[str, str]]:
        conditions = len(parsed_args.member_of) + len(parsed_args.not_member_of)
        return [("member_of repeated", "--aggregate with --member-of")] if conditions else []

    def asked(self, parsed_args: argparse.Namespace) -> list[str]:
        return [word for item in parsed_args.aggregate for word in ("--aggregate", item)]


class AddAggregate(_AggregateBatch):
    """Make one provider or many members of aggregates

    The aggregates that a provider is in already stay. A nova host aggregate is mirrored by
    "placement aggregate mirror" instead, which also sees who should not be in it.
    """

    example = """\
openstack resource provider aggregate add --aggregate <aggregate> \\
    --name-glob 'rack1-*'"""

    def planner(self, parsed_args: argparse.Namespace) -> plan.Planner:
        from osc_placement.workflows.batch import plan

        return functools.partial(plan.plan_aggregates, add=parsed_args.aggregate)


class RemoveAggregate(_AggregateBatch):
    """Take one provider or many out of aggregates

    The other aggregates that a provider is in stay.
    """

    example = """\
openstack resource provider aggregate remove --aggregate <aggregate> \\
    --member-of <aggregate>"""

    def planner(self, parsed_args: argparse.Namespace) -> plan.Planner:
        from osc_placement.workflows.batch import plan

        return functools.partial(plan.plan_aggregates, remove=parsed_args.aggregate)
