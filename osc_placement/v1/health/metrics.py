# SPDX-License-Identifier: Apache-2.0
"""``placement metrics write``."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import pathlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from osc_placement import errors, microversion
from osc_placement.v1.common import arguments, base, services

if TYPE_CHECKING:
    from osc_placement.nova.api import Nova
    from osc_placement.workflows.cloud.context import ReadContext
    from osc_placement.workflows.health import health

#: The mode of a file that the node exporter reads as another user.
_MODE = 0o644


class WriteMetrics(base.Command):
    """Write the state of Placement as metrics for Prometheus

    Capacity and usage of each provider with the names of openstack-exporter; its consumers;
    on how many hosts each flavor fits, and how often; and the findings of placement health show.
    """

    writes = False
    names_database = False
    reads_one_moment = True
    required_feature = "consumer generation"
    default_version: ClassVar[microversion.Microversion] = microversion.MAXIMUM
    example = """\
openstack placement metrics write \\
    --textfile /var/lib/prometheus/node-exporter/placement.prom"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_file(
            parser,
            "--textfile",
            "The file (name.prom) of the node exporter's textfile collector, which is replaced"
            " at once, mode 0644; without it the metrics are printed",
        )
        arguments.add_repeated(
            parser, "--trait", "<trait>", "Also list the providers with this trait."
        )
        parser.add_argument(
            "--per-host",
            action="store_true",
            help="Also how often each flavor fits on each host: a series for each pair",
        )
        arguments.add_flag(
            parser,
            "--per-consumer",
            "Also what each consumer has of each provider: a series for each",
        )
        services.add_nova_conf(parser)
        parser.add_argument(
            "--projects",
            action="store_true",
            help="Also what each project uses, and its quotas: one request to nova for each",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from osc_placement.plan import file
        from osc_placement.workflows.health import metrics

        target = parsed_args.textfile
        if target is not None and target.is_symlink():
            raise errors.PlacementError(
                f"{target} is a symbolic link, and is not replaced: give the file itself"
            )
        if target is not None and file.is_of_another_kind(target, b"# HELP "):
            raise errors.PlacementError(
                f"{target} exists and is not a file of metrics: give another file; nothing was"
                " changed"
            )
        # Before anything is read: a missing package.
        metrics.text([])
        with self.reading() as context, self._opened(parsed_args, context) as (read, nova, saved):
            details = metrics.Details(
                parsed_args.trait,
                parsed_args.per_host,
                parsed_args.per_consumer,
                parsed_args.projects,
                nova,
            )
            families = metrics.read(read, context, details, saved)
        text = metrics.text(families)
        if target is None:
            self.app.stdout.write(text)
            return
        file.replace(target, [text], mode=_MODE)
        samples = sum(len(family.samples) for family in families)
        self.write_note(f"{samples} samples of {len(families)} metrics written to {target}")

    @contextlib.contextmanager
    def _opened(
        self, parsed_args: argparse.Namespace, context: ReadContext
    ) -> Iterator[tuple[health.HealthServices, Nova | str, float | None]]:
        """What is read, nova itself or why it is not there, and when its cloud was read.

        The tables of Placement are read at once, into a file.
        """
        from osc_placement.workflows.cloud import rehearsal
        from osc_placement.workflows.snapshot import save

        database = self._database()
        finished: float | None = None
        if database is not None and pathlib.Path(database).exists():
            finished = _finished(pathlib.Path(database))
        read = services.or_reasons(self, parsed_args.nova_conf)
        if database is not None:
            yield read, read.nova, finished
        elif read.client.tables is None:
            yield read, read.nova, time.time()
        else:
            with (
                save.saved(read.client, context) as path,
                rehearsal.opened_file(path) as client,
            ):
                yield dataclasses.replace(read, client=client), read.nova, _finished(path)


def _finished(path: pathlib.Path) -> float | None:
    """When a snapshot was saved; None for another database file."""
    from osc_placement.workflows.snapshot import file

    with file.SnapshotFile(path) as saved:
        return saved.metadata.finished if saved.metadata else None
