"""``placement reshape``."""

from __future__ import annotations

import argparse
import json
import pathlib
import shlex
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cliff import columns

from osc_placement import errors
from osc_placement.plan import guards as plan_guards
from osc_placement.v1 import arguments, change, progress, provider_tree, selector

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.plan import result
    from osc_placement.workflows.reshape import plan as reshape_plan, rows

COLUMNS = ("tree", "uuid", "before", "after", "status", "reason")

STRATEGIES = ("pack", "spread", "in-order")


class Amounts(columns.FormattableColumn[Any]):
    """What a provider offers or a consumer has; people see ``VGPU=used/capacity`` or ``VGPU=1``."""

    def human_readable(self) -> str:
        if self._value is None:
            return "-"
        return "\n".join(f"{name}={_amount(value)}" for name, value in self._value.items())


class Reshape(change.Batch):
    """Move inventory between providers of a tree, and its allocations with it

    The file says what moves where, in YAML or JSON. Where the allocations go follows from
    what fits, from the file's ``assign``, or is guessed by --strategy and then marked so.
    Every consumer keeps all that it has: a reshape is one atomic request per tree, or for
    all trees that share consumers. New providers, traits and aggregates come before it, and
    what became empty goes after it.

    The plan is always rehearsed first, on an embedded Placement that holds the trees as they
    are: --dry-run shows that and stops.
    """

    required_feature = "reshaper"
    guards = (plan_guards.NOVA_OWNED,)
    column_names = COLUMNS
    example = """\
openstack placement reshape vgpu.yaml --dry-run --show-requests
openstack placement reshape vgpu.yaml --strategy pack
openstack placement reshape --to-tree cn1.yaml
openstack placement reshape every-host.yaml --member-of <aggregate>"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "file",
            metavar="<file>",
            nargs="?",
            type=pathlib.Path,
            help="The moves. Where they say $root, they are carried out in the tree of each"
            " root provider that is selected.",
        )
        parser.add_argument(
            "--to-tree",
            metavar="<file>",
            type=pathlib.Path,
            help="Instead of moves: the tree as it shall be; what must move follows from it",
        )
        parser.add_argument(
            "--strategy",
            choices=STRATEGIES,
            help="How to choose where several places are possible: pack fills one target after the"
            " other, spread fills all evenly, in-order takes consumers by UUID and targets as"
            " the file has them",
        )
        parser.add_argument(
            "--timeout",
            metavar="<seconds>",
            type=arguments.positive,
            default=20,
            help="How long to look for places before giving up (default: 20)",
        )
        parser.add_argument(
            "--show-requests",
            action="store_true",
            help="Show the requests of the rehearsal with their bodies, on stderr",
        )
        selector.add_selector(parser)
        self.add_change_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[Any]]:
        from osc_placement.plan import apply
        from osc_placement.workflows import context
        from osc_placement.workflows.reshape import plan as reshape_plan

        if (parsed_args.file is None) == (parsed_args.to_tree is None):
            self.usage_error("give a file of moves, or --to-tree")
        client = self.connect(selector.features(parsed_args))
        with progress.shown(quiet=self.is_quiet) as watch:
            reading = context.ReadContext(parsed_args.workers, watch)
            asked = self._asked(client, parsed_args)
            prepared = reshape_plan.plan_reshape(client, asked, reading)
            report = apply.carry_out(
                client,
                prepared.planned,
                f"{self.cmd_name} {shlex.join(_words(parsed_args))}",
                change.options(parsed_args, watch),
            )
        self.finish(report, parsed_args)
        if parsed_args.show_requests:
            self.tell([*_requests(prepared), *self._said])
        return COLUMNS, list(_rows(prepared, report))

    def _asked(
        self, client: api.Client, parsed_args: argparse.Namespace
    ) -> reshape_plan.ReshapeRequest:
        from osc_placement.workflows.reshape import assign, plan as reshape_plan
        from osc_placement.workflows.reshape.document import parse, target_tree, template

        selected = selector.read_selector(parsed_args)
        asked = reshape_plan.ReshapeRequest(
            manner=assign.AssignOptions(parsed_args.strategy, float(parsed_args.timeout)),
            allow=frozenset(parsed_args.allow),
        )
        if parsed_args.to_tree is not None:
            if selected:
                self.usage_error("--to-tree names its tree itself: nothing can be selected")
            found = target_tree.parse(*_text(parsed_args.to_tree))
            return reshape_plan.replace(asked, tree=found)
        moves = parse.parse(*_text(parsed_args.file))
        if template.is_template(moves) != bool(selected):
            self.usage_error(
                "the file says $root: select providers"
                if not selected
                else "providers are selected, but the file does not say $root"
            )
        roots = (
            reshape_plan.select_roots(client, selected, self._host_aggregates()) if selected else ()
        )
        return reshape_plan.replace(asked, document=moves, roots=roots)


def _text(path: pathlib.Path) -> tuple[str, str]:
    """A file's text and what faults call it; - is standard input."""
    if str(path) == "-":
        return sys.stdin.read(), "standard input"
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except (OSError, UnicodeDecodeError) as error:
        raise errors.PlacementError(f"{path} cannot be read: {error}") from error


def _words(parsed_args: argparse.Namespace) -> Iterator[str]:
    """The arguments that say what to do, for the plan file to tell."""
    if parsed_args.file is not None:
        yield str(parsed_args.file)
    if parsed_args.to_tree is not None:
        yield from ("--to-tree", str(parsed_args.to_tree))
    if parsed_args.strategy is not None:
        yield from ("--strategy", parsed_args.strategy)
    yield from shlex.split(str(selector.read_selector(parsed_args)))


def _rows(prepared: reshape_plan.Prepared, report: result.RunReport) -> Iterator[tuple[Any, ...]]:
    from osc_placement.plan import change as change_module
    from osc_placement.workflows.reshape import rows

    shown = rows.Shown(prepared.seen, prepared.wanted, prepared.placed, report.outcomes)
    for mark, item in provider_tree.draw(shown.tree()):
        yield _row(mark + item.name, shown.provider(item.uuid))
        inner = mark.replace("└─ ", "   ").replace("├─ ", "│  ")
        for line in shown.consumers(item.uuid):
            yield _row(f"{inner}   {line.uuid}", line)
    for left in report.outcomes:
        if left.kind == change_module.RESHAPE and not left.after:
            reasons = change.Reasons(left.reason)
            uuid = left.subject.uuid
            yield (left.subject.name, uuid, Amounts({}), Amounts({}), str(left.status), reasons)


def _row(name: str, line: rows.Line) -> tuple[Any, ...]:
    before, after = (cell if cell is None else dict(cell) for cell in (line.before, line.after))
    reasons = change.Reasons(line.reason)
    return (name, line.uuid, Amounts(before), Amounts(after), line.status, reasons)


def _requests(prepared: reshape_plan.Prepared) -> Iterator[str]:
    if prepared.rehearsed is None:
        return
    for request in prepared.rehearsed.requests:
        yield f"{request.method} {request.path}"
        if request.body is not None:
            yield json.dumps(request.body, indent=1)


def _amount(value: Mapping[str, int] | int) -> str:
    return f"{value['used']}/{value['capacity']}" if isinstance(value, Mapping) else str(value)
