"""``placement snapshot anonymize``."""

from __future__ import annotations

import argparse
import pathlib
from typing import Any

from osc_placement.v1 import base


class AnonymizeSnapshot(base.ReportShowOne):
    """Write a copy of a snapshot with pseudonyms, for a support case

    Replaces names, projects, users, UUIDs, custom traits and custom resource classes; in the data
    of nova and neutron also the names of servers, hosts, flavors, aggregates, availability zones
    and ports. What no command reads of nova and neutron is left out: addresses, metadata, tags,
    descriptions. Sizes, amounts, generations, states and times stay, so the commands give the same
    answers. The key file has the real name of each pseudonym: keep it to yourself. With the same
    key file, the next snapshot of the cloud has the same pseudonyms.
    """

    writes = False
    example = """\
openstack placement snapshot anonymize cloud.sqlite case.sqlite \\
    --key-file cloud.key.json"""

    @property
    def auth_required(self) -> bool:
        return False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "file", metavar="<file>", type=pathlib.Path, help="The snapshot; it stays unchanged"
        )
        parser.add_argument(
            "new_file", metavar="<new-file>", type=pathlib.Path, help="The anonymized file"
        )
        parser.add_argument(
            "--key-file",
            metavar="<key-file>",
            type=pathlib.Path,
            required=True,
            help="Where the real name of each pseudonym is kept, readable for its owner only. An"
            " existing key file of the same cloud is extended: its pseudonyms stay",
        )
        parser.add_argument(
            "--keep-custom-names",
            action="store_true",
            help="Keep the names of custom traits, resource classes and consumer types",
        )

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        from osc_placement.workflows.snapshot import anonymize, file

        anonymization = anonymize.Anonymization(parsed_args.key_file, parsed_args.keep_custom_names)
        anonymization.write(parsed_args.file, parsed_args.new_file)
        self.summary = [f"Note: {parsed_args.key_file} has the real names: do not pass it on"]
        found = file.summarize(parsed_args.new_file)
        fields = {
            "file": str(parsed_args.new_file),
            "key_file": str(parsed_args.key_file),
            "source": found.metadata.target if found.metadata else None,
            "resource_providers": found.counts.providers,
            "consumers": found.counts.consumers,
        }
        return tuple(fields), tuple(fields.values())
