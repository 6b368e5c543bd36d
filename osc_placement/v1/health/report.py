# SPDX-License-Identifier: Apache-2.0
"""``placement report write`` writes one HTML page about a cloud, from a Jinja2 template."""

from __future__ import annotations

import argparse
import base64
import collections
import hashlib
import pathlib
import re
from importlib import resources
from typing import TYPE_CHECKING, Any

from osc_placement import errors
from osc_placement.model import name
from osc_placement.v1.common import arguments, base, services
from osc_placement.v1.output import rows

if TYPE_CHECKING:
    from osc_placement.workflows.health import report

#: Hosts that the map shows with their names; characters of a name where space is short.
_MOST_TILES, _MOST_CHARACTERS = 120, 60

#: Aggregates and kinds of problems that are shown unfolded.
_MOST_AGGREGATES, _MOST_PROBLEMS = 20, 6

#: ``(step, text)`` of the map's legend; a step is five percent.
_LEGEND = (
    (2, "below 25 %"),
    (7, "25 to 49 %"),
    (12, "50 to 74 %"),
    (16, "75 to 89 %"),
    (18, "90 to 99 %"),
    (20, "full"),
)

#: ``{resource class: (its unit, larger units)}``; each unit is 1024 of the one before.
_UNITS = {"MEMORY_MB": ("MiB", "GiB", "TiB", "PiB"), "DISK_GB": ("GiB", "TiB", "PiB", "EiB")}


class WriteReport(base.ReportShowOne):
    """Write one page about the cloud: capacity, hosts, flavors and health

    For people who look rather than read: one HTML file without scripts, with the capacity and
    use of the cloud and of each aggregate, a map of all hosts, the fullest and the emptiest ones,
    how often each flavor fits, the shapes of the provider trees, and what placement health show
    finds, with the commands that repair it. Without nova, the page has no flavors, zones and
    names of aggregates. Only reads. -f json has the numbers of hosts, errors and warnings.
    """

    names_database = False
    required_feature = "consumer generation"
    example = """\
openstack placement report write --output cloud.html
openstack --os-placement-database cloud.sqlite placement report write \\
    --output change.html --plan ratios.json"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_file(
            parser, "--output", "The new file; only its owner can read it", required=True
        )
        arguments.add_flag(parser, "--replace", "Replace an existing report")
        arguments.add_file(
            parser,
            "--plan",
            "Also show the cloud after the changes of this plan file",
            "<plan>",
        )
        arguments.add_flag(
            parser,
            "--no-health",
            "Leave out the health checks, which take most of the time in a large cloud",
        )
        services.add_nova_conf(parser)

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        with errors.needs_extra("report", "placement report write"):
            import jinja2  # noqa: F401
        from osc_placement.plan import file
        from osc_placement.workflows.health import report

        path = parsed_args.output
        _check_replaceable(path, replace=parsed_args.replace)
        planned = None
        if parsed_args.plan is not None:
            planned = (file.read(parsed_args.plan), parsed_args.plan)
        # Nova and neutron, or for each the reason why there is none.
        connected = services.or_reasons(self, parsed_args.nova_conf)
        with self.reading() as context:
            written = report.read(
                connected, context, planned, with_health=not parsed_args.no_health
            )
        file.replace(path, [page(written)])
        counts = _severities(written)
        fields = {
            "file": str(path),
            "providers": written.providers,
            "hosts": len(written.hosts),
            "aggregates": len(written.aggregates),
            "flavors": len(written.figures.fits.flavors),
            "errors": None if written.health is None else counts["error"],
            "warnings": None if written.health is None else counts["warning"],
        }
        return tuple(fields), tuple(fields.values())


def _severities(written: report.Report) -> collections.Counter[str]:
    """How many findings have each severity, as ``placement health show`` counts them."""
    counts: collections.Counter[str] = collections.Counter()
    for line in written.health or ():
        counts[str(line.severity)] += len(line.subjects)
    return counts


def _check_replaceable(path: pathlib.Path, *, replace: bool) -> None:
    """Errors: PlacementError for an existing file that is no report, or without ``replace``."""
    from osc_placement.plan import file

    if not path.is_file():
        return
    if not replace:
        raise errors.PlacementError(f"{path} exists: give another file, or --replace")
    if file.is_of_another_kind(path, _GENERATOR):
        raise errors.PlacementError(f"{path} exists and is not a report: give another file")


#: The tag by which a report is recognized.
_GENERATOR = b'<meta name="generator" content="openstack placement report write">'

#: The parts of a name between which a line may break.
_WORDS = re.compile(r"[^\W_]{1,14}[\W_]?|[\W_]")


def page(written: report.Report) -> str:
    """The HTML of a report. Every value is escaped, and its control characters are made visible."""
    import jinja2
    import markupsafe

    from osc_placement.workflows.health import report

    def printable(value: object) -> object:
        is_text = isinstance(value, str) and not isinstance(value, markupsafe.Markup)
        return rows.printable(str(value)) if is_text else value

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template),
        autoescape=True,
        finalize=printable,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.ChainableUndefined,
    )
    environment.filters.update(
        amount=amount, counted=_counted, grouped="{:,}".format, short=_short, step=_step
    )
    environment.filters["breakable"] = lambda text: markupsafe.Markup("<wbr>").join(
        _WORDS.findall(rows.printable(text))
    )
    style = environment.get_template("report.css").render()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return environment.get_template("report.html").render(
        report=written,
        problems=_severities(written),
        legend=_LEGEND,
        most_aggregates=_MOST_AGGREGATES,
        most_problems=_MOST_PROBLEMS,
        most_hosts=report.MOST_HOSTS,
        most_tiles=_MOST_TILES,
        most_trees=report.MOST_TREES,
        style=markupsafe.Markup(style),  # noqa: S704
        style_hash=f"sha256-{digest}",
    )


def _template(name: str) -> str:
    """The text of a template, a file next to this module."""
    return (resources.files(__package__) / name).read_text("utf-8")


def _step(percent: int) -> int:
    """The step of five percent, 20 only for what is full."""
    return min(percent // 5, 20)


def _short(text: str, most: int = _MOST_CHARACTERS) -> str:
    """The beginning of a long text, in visible characters."""
    text = rows.printable(text)
    return text if len(text) <= most else f"{text[: most - 1]}\u2026"


def _counted(number: int, noun: str) -> str:
    """``10,000 hosts``"""
    return name.counted(number, noun).replace(str(number), f"{number:,}", 1)


def amount(number: int, resource_class: str) -> str:
    """``3.5 GiB`` for 3584 MEMORY_MB; grouped digits for a class without a unit."""
    units = _UNITS.get(resource_class)
    if units is None:
        return f"{number:,}"
    value = float(number)
    unit = units[0]
    for larger in units[1:]:
        if abs(value) < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:,.1f}".removesuffix(".0") + f" {unit}"
