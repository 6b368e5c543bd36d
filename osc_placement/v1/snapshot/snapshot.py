# SPDX-License-Identifier: Apache-2.0
"""``placement snapshot save | show | diff``."""

from __future__ import annotations

import argparse
import collections
import contextlib
import datetime
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from osc_placement.model.name import counted
from osc_placement.v1.common import arguments, base, services
from osc_placement.v1.output import rows

if TYPE_CHECKING:
    from osc_placement.workflows.snapshot import diff, file, save


#: The word that names the cloud of the command line where a file could be named.
LIVE = "live"

#: Notes that a table shows.
_MOST_NOTES = 10


class SaveSnapshot(base.ReportShowOne):
    """Save the state of Placement in a file, which all commands can run on

    The file contains all providers, inventories, aggregates, traits, resource classes,
    allocations and consumers. Use it with --os-placement-database. Each provider is saved in a
    state that existed; the file lists what changed while it was saved. With --os-placement-config
    the command reads the tables of Placement in one transaction, in seconds, also while the service
    runs. A snapshot is never written back to a service; to restore a state, use plans and undo
    files.
    """

    names_database = False
    reads_one_moment = True

    example = """\
openstack placement snapshot save cloud.sqlite
openstack --os-placement-database cloud.sqlite resource provider list"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_file(parser, "file", "The new file")
        arguments.add_flag(
            parser,
            "--without-owners",
            "Do not read project, user and type of each consumer, which needs one request"
            " per consumer; they are 'unknown' in the file",
        )
        arguments.add_flag(
            parser,
            "--with-nova",
            "Also save what heal, audit and mirror read from nova (servers, hypervisors,"
            " services, host aggregates, migrations, flavors) and from neutron (ports with resource"
            " requests)",
        )
        services.add_skip_port_allocations(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Fields:
        from osc_placement.workflows.snapshot import save

        client = self.connect()
        also = None
        if parsed_args.with_nova:
            from osc_placement.workflows.snapshot import nova

            # Opened now, so that a missing cloud is found before Placement is read.
            cloud = services.NovaServices(self, skips_ports=parsed_args.skip_port_allocations)
            also = nova.Recording(cloud.nova, cloud.neutron_for_ports)
        request = save.SaveRequest(
            parsed_args.file,
            owners=not parsed_args.without_owners,
            also=also,
        )
        with self.reading() as context:
            report = save.save(client, request, context)
        fields = _saved_fields(parsed_args.file, report)
        return tuple(fields), tuple(fields.values())


class ShowSnapshot(base.ReportShowOne):
    """Show the content, the source and the consistency of a snapshot

    Reads only the file. state_hash is equal for equal states, regardless of generations.
    unchanged says whether the file still has the state that was saved.
    """

    auth_required = False
    example = "openstack placement snapshot show cloud.sqlite"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_file(parser, "file", "The snapshot")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Fields:
        from osc_placement.workflows.snapshot import file

        fields = _shown_fields(parsed_args.file, file.summarize(parsed_args.file))
        return tuple(fields), tuple(fields.values())


class DiffSnapshots(base.ReportLister):
    """Show what differs between two snapshots, or between a snapshot and the cloud

    One row per provider, consumer, trait and resource class that differs. JSON output is
    complete; a table shows only the facts that differ. Generations and timestamps are left out.
    Two states without a common provider are two clouds: their providers are compared by name,
    without aggregates and allocations.
    """

    auth_required = False
    names_database = False

    exit_codes = {**base.EXIT_CODES, 3: "the states differ"}
    example = """\
openstack placement snapshot diff monday.sqlite tuesday.sqlite
openstack placement snapshot diff monday.sqlite live"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        for name, text in (("before", "The first state"), ("after", "The second state")):
            parser.add_argument(
                name,
                metavar=f"<{name}>",
                help=f"{text}: a snapshot file, or '{LIVE}' for the cloud",
            )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        from osc_placement.workflows.snapshot import diff, file

        words = (parsed_args.before, parsed_args.after)
        if words == (LIVE, LIVE):
            self.usage_error(f"only one of the two states can be '{LIVE}'")
        with contextlib.ExitStack() as stack:
            # A file first: the cloud is read with what the file has.
            sides = {
                word: stack.enter_context(file.SnapshotFile(pathlib.Path(word)))
                for word in words
                if word != LIVE
            }
            owners = all(map(file.has_owners, sides.values()))
            if LIVE in words:
                sides[LIVE] = stack.enter_context(self._live(owners=owners))
            before, after = (sides[word] for word in words)
            two_clouds = diff.are_two_clouds(before, after)
            differences = list(
                diff.differences_by_name(before, after)
                if two_clouds
                else diff.differences(before, after, owners=owners)
            )
            names = {item.uuid: item.name for side in (before, after) for item in side.providers()}
        self.exit_code = 3 if differences else 0
        lines = [] if owners else ["One of the snapshots has no owners: they are not compared"]
        if two_clouds:
            lines = ["These are two clouds: providers are compared by name, and no allocations"]
        self.summary = [*lines, _summary(differences)]
        columns: rows.Columns[diff.StateDifference] = {
            "kind": lambda item: str(item.kind),
            "uuid": lambda item: item.uuid or None,
            "name": lambda item: item.name or None,
            "change": lambda item: str(item.change),
            "before": lambda item: _side(item.before, names, shown=item.change == "changed"),
            "after": lambda item: _side(item.after, names, shown=item.change == "changed"),
        }
        return rows.listing(columns, differences)

    @contextlib.contextmanager
    def _live(self, *, owners: bool) -> Iterator[file.SnapshotFile]:
        """The cloud of the command line, in a temporary file."""
        from osc_placement.workflows.snapshot import file, save

        if not self.is_local:
            services.authenticate(self.app, "compares a snapshot with the cloud")
        with contextlib.ExitStack() as stack:
            with self.reading() as context:
                saved = save.saved(self.connect(), context, owners=owners)
                path = stack.enter_context(saved)
            yield stack.enter_context(file.SnapshotFile(path))


def _summary(differences: list[diff.StateDifference]) -> str:
    """How many objects of each kind were added, removed and changed."""
    counts = collections.Counter((item.kind, item.change) for item in differences)
    parts = [f"{counted(count, str(kind))} {change}" for (kind, change), count in counts.items()]
    return "; ".join(parts) or "The states are equal"


def _side(facts: Mapping[str, Any], names: Mapping[str, str], *, shown: bool) -> rows.Cell:
    """``{fact: value}``; a table shows ``VCPU:total=4``, and a trait or an aggregate as itself.

    A table shows providers by name, and nothing for an object that one side does not have.
    """
    lines = []
    for key, value in facts.items() if shown else ():
        subject, separator, rest = key.partition(":")
        text = f"{names.get(subject, subject)}{separator}{rest}"
        lines.append(text if value is True else f"{text}={names.get(str(value), value)}")
    return rows.Cell(dict(facts), lines)


def _saved_fields(path: pathlib.Path, report: save.SaveReport) -> dict[str, Any]:
    metadata, counts = report.metadata, report.counts
    return {
        "file": str(path),
        "source": metadata.target,
        "resource_providers": counts["resource_providers"],
        "consumers": counts["consumers"],
        "requests": metadata.requests,
        "seconds": round(metadata.finished - metadata.started, 1),
        "notes": _notes(report.notes),
    }


def _shown_fields(path: pathlib.Path, content: file.SnapshotSummary) -> dict[str, Any]:
    metadata = content.metadata
    saved = {} if metadata is None else _source_fields(metadata, content)
    return {
        "file": str(path),
        **saved,
        **content.counts,
        "state_hash": content.state_hash,
        "notes": _notes(content.notes),
    }


def _source_fields(
    metadata: file.SnapshotMetadata, content: file.SnapshotSummary
) -> dict[str, Any]:
    return {
        "source": metadata.target,
        "saved_from": _time(metadata.started),
        "saved_until": _time(metadata.finished),
        "microversion": metadata.microversion,
        "server_versions": metadata.server_versions,
        "saved_by": f"osc-placement {metadata.program}",
        "unchanged": content.is_unchanged,
        "owners": metadata.owners,
        "nova_saved": _time(metadata.nova_saved),
        "recorded": rows.lines(content.recorded),
    }


def _time(seconds: float | None) -> str | None:
    """UTC, ISO 8601."""
    if seconds is None:
        return None
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")


def _notes(notes: Sequence[file.SaveNote]) -> rows.Cell:
    """``[{uuid, text}]``; a table shows the first ones, one per line."""
    lines = [f"{note.uuid}: {note.text}" for note in notes[:_MOST_NOTES]]
    if len(notes) > _MOST_NOTES:
        lines.append(f"... and {len(notes) - _MOST_NOTES} more (-f json)")
    return rows.Cell([note._asdict() for note in notes], lines)
