# SPDX-License-Identifier: Apache-2.0
"""``placement reshape``."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from osc_placement.plan.guards import MANY, NOVA_OWNED, ONE_TIME_USE
from osc_placement.v1.common import arguments, base, plan_command, services
from osc_placement.v1.output import rows
from osc_placement.v1.resources import provider

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.model.provider import Provider
    from osc_placement.plan import result
    from osc_placement.plan.plan import ObservedPlan
    from osc_placement.workflows.reshape import reshape_plan, reshape_rows

COLUMNS = ("uuid", "before", "after", "status", "reason", "code")

STRATEGIES = ("pack",)


class Reshape(plan_command.SelectorCommand):
    """Move inventory and its allocations between the providers of a tree

    The file, in YAML or JSON, contains the moves. The target of each allocation follows from
    capacity or from the file's ``assign``, or --strategy chooses it, and the result marks it
    as a guess. No consumer loses resources: each tree, or each set of trees that share
    consumers, is changed by one atomic request. New providers, traits and aggregates are
    created before it; empty providers are deleted after it.

    "placement recipe vgpu", "recipe pcpu", "recipe replace-host", "recipe sev" and
    "recipe pci" write a file for frequent tasks.

    Every plan is first applied to a copy of the trees in a reference server; --dry-run
    stops after this.
    """

    required_feature = "reshaper"
    guards = (NOVA_OWNED, ONE_TIME_USE, MANY)
    limits_capacity = True
    has_default_limit = False
    limited = "the capacity of a resource class, summed over the trees, or of the providers in them"
    table_columns = ("tree", "before", "after", "status", "reason")
    example = """\
openstack placement reshape vgpu.yaml --dry-run
openstack placement reshape vgpu.yaml --strategy pack
openstack placement reshape --to-tree cn1.yaml
openstack placement reshape every-host.yaml --member-of <aggregate>"""

    _prepared: reshape_plan.Prepared

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_file(
            parser,
            "file",
            "The moves; - is standard input. If they contain $root, they are made in the"
            " tree of each selected root provider.",
            nargs="?",
        )
        arguments.add_file(
            parser,
            "--to-tree",
            "A file with the target tree instead of moves; the moves follow from it",
        )
        parser.add_argument(
            "--strategy",
            choices=STRATEGIES,
            help="How to choose if several targets are possible: pack fills one target after the"
            " other",
        )
        arguments.add_count(
            parser,
            "--timeout",
            "How long to search for an assignment (default: 20)",
            "<seconds>",
            default=20,
        )
        arguments.add_selector(parser)
        self.add_change_options(parser)

    def check_arguments(self, parsed_args: argparse.Namespace) -> None:
        super().check_arguments(parsed_args)
        if (parsed_args.file is None) == (parsed_args.to_tree is None):
            self.usage_error("give a file of moves, or --to-tree")

    def plan(self, run: plan_command.CommandRun, parsed_args: argparse.Namespace) -> ObservedPlan:
        from osc_placement.plan.kinds.provider import TYPE
        from osc_placement.workflows.reshape import reshape_plan

        request = self._request(run.client, parsed_args)
        self._prepared = reshape_plan.plan_reshape(run.client, request, run.context)
        planned = self._prepared.planned
        if parsed_args.max_percent is None:
            return planned
        providers = {TYPE.unit: len(self._prepared.before.inside)}
        return dataclasses.replace(
            planned, plan=dataclasses.replace(planned.plan, existing=providers)
        )

    def finish(self, report: result.RunReport, parsed_args: argparse.Namespace) -> base.Rows:
        super().finish(report, parsed_args)
        is_table = parsed_args.formatter == "table"
        return self.columns_of(parsed_args), list(_rows(self._prepared, report, is_table=is_table))

    def columns_of(self, parsed_args: argparse.Namespace) -> tuple[str, ...]:
        if parsed_args.formatter == "table":
            return provider.TABLE_COLUMNS + COLUMNS
        return provider.DATA_COLUMNS + COLUMNS

    def _request(
        self, client: api.Client, parsed_args: argparse.Namespace
    ) -> reshape_plan.ReshapeRequest:
        from osc_placement.workflows.reshape import (
            assignment,
            documents,
            reshape_plan,
            target_tree,
        )

        selected = self.selected
        text, source = _document(parsed_args.file or parsed_args.to_tree)
        document: documents.Document | documents.Tree
        roots: tuple[Provider, ...] = ()
        if parsed_args.to_tree is not None:
            if selected:
                self.usage_error("--to-tree contains its tree: remove the selected providers")
            document = documents.parse_tree(text, source)
        else:
            document = documents.parse(text, source)
            if target_tree.is_template(document) != bool(selected):
                self.usage_error(
                    "the file contains $root: select providers"
                    if not selected
                    else "providers are selected, but the file does not contain $root"
                )
            if selected:
                names = services.named_aggregates(self)
                roots = reshape_plan.select_roots(client, selected, names)
        options = assignment.AssignOptions(parsed_args.strategy, float(parsed_args.timeout))
        allow = frozenset(parsed_args.allow)
        return reshape_plan.ReshapeRequest(document, roots, options, allow)


def _document(path: pathlib.Path) -> tuple[str, str]:
    """The text of a file, and its name in errors."""
    return arguments.read_file(path), "standard input" if str(path) == "-" else str(path)


def _rows(
    prepared: reshape_plan.Prepared, report: result.RunReport, *, is_table: bool
) -> Iterator[rows.Row]:
    from osc_placement.workflows.reshape import reshape_rows

    before, after = prepared.before, prepared.after
    by_provider = reshape_rows.collect_rows(before, after, prepared.placed, report.results)
    for branches, item in provider.draw(reshape_rows.tree(before, after)):
        own, *consumers = by_provider[item.uuid]
        cells = provider.tree_cells(branches, item.name, item.parent_uuid, is_table=is_table)
        yield cells + _row(own)
        inner = branches.replace("└─ ", "   ").replace("├─ ", "│  ") + "   "
        for line in consumers:
            yield (
                provider.tree_cells(inner, line.uuid, item.uuid, is_table=is_table, kind="consumer")
                + _row(line)
            )
    for left in report.results:
        if left.after is None:
            yield (
                *provider.tree_cells("", left.subject.name, None, is_table=is_table),
                left.subject.uuid,
                rows.usages({}),
                rows.usages({}),
                str(left.status),
                rows.reasons(left.reason, left.code),
                str(left.code),
            )


def _row(line: reshape_rows.ReshapeRow) -> rows.Row:
    before, after = (cell if cell is None else dict(cell) for cell in (line.before, line.after))
    reasons = rows.reasons(line.reason, line.code)
    usages = rows.usages(before), rows.usages(after)
    return (line.uuid, *usages, line.status, reasons, str(line.code))
