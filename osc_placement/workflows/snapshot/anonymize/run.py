"""Anonymizes a snapshot: reads its names, extends the key, writes a new file."""

from __future__ import annotations

import dataclasses
import pathlib
import shlex
from collections.abc import Mapping

from osc_placement import errors
from osc_placement.model import name
from osc_placement.workflows.snapshot import file, rewrite
from osc_placement.workflows.snapshot.anonymize import key as keys, recording
from osc_placement.workflows.snapshot.anonymize.key import Key, Kind
from osc_placement.workflows.snapshot.anonymize.names import Names, Replace
from osc_placement.workflows.snapshot.anonymize.state import Anonymizer


@dataclasses.dataclass(frozen=True, slots=True)
class Anonymization:
    """The operator's arguments. ``keep_custom``: keep the names of custom traits and classes."""

    key_path: pathlib.Path
    keep_custom: bool = False

    def key(self, origin: str) -> Key:
        """The key for snapshots of a cloud: that of the file, or a new one.

        Errors: PlacementError for the key of another cloud.
        """
        found = keys.read(self.key_path) or keys.create(origin)
        if found.origin != origin:
            raise errors.PlacementError(
                f"{self.key_path} is the key of snapshots of {found.origin}, this one is of"
                f" {origin}: give another --key-file; nothing was changed"
            )
        return found

    def write(self, path: pathlib.Path, target: pathlib.Path) -> None:
        """Write the anonymized form of a snapshot to ``target``, a new file.

        The key file is written first, so that no file exists without its key.
        Errors: PlacementError; then ``target`` does not exist.
        """
        with file.opened(path) as opened:
            metadata = _anonymizable(path, opened.metadata)
            known = frozenset({*opened.traits(), *opened.resource_classes()})
            compared = recording.metadata_keys(opened.recording())
        self._check_paths(target)
        standard = frozenset(text for text in known if not text.startswith(name.CUSTOM_PREFIX))
        key = self.key(metadata.origin)
        with file.explained():
            key.add(self._names_in(path, standard, compared))
            keys.write(self.key_path, key)
            anonymizer = self._anonymizer(key.pseudonym, standard, compared)
            anonymous = dataclasses.replace(
                metadata, origin=key.identity, target=key.identity, anonymized=True
            )
            rewrite.write(str(path), str(target), anonymizer, anonymous)

    def _check_paths(self, target: pathlib.Path) -> None:
        shown = shlex.quote(str(target))
        if target.exists():
            raise errors.PlacementError(f"{shown} exists: give another file; nothing was changed")
        if self.key_path.absolute() == target.absolute():
            raise errors.PlacementError(
                f"{shown} cannot be the key file too: give another --key-file; nothing was changed"
            )
        for path in (target, self.key_path):
            if not path.absolute().parent.is_dir():
                raise errors.PlacementError(
                    f"{path} cannot be written: folder {path.parent} does not exist; nothing was"
                    " changed"
                )

    def _anonymizer(
        self, replace: Replace, standard: frozenset[str], compared: frozenset[str]
    ) -> Anonymizer:
        return Anonymizer(Names(replace, standard, compared, keep_custom=self.keep_custom))

    def _names_in(
        self, path: pathlib.Path, standard: frozenset[str], compared: frozenset[str]
    ) -> Mapping[Kind, set[str]]:
        """Everything in a snapshot that gets a pseudonym."""
        found: dict[Kind, set[str]] = {kind: set() for kind in Kind}

        def collect(kind: Kind, text: str) -> str:
            found[kind].add(text)
            return text

        rewrite.visit(str(path), self._anonymizer(collect, standard, compared))
        return found


def _anonymizable(path: pathlib.Path, metadata: file.Metadata | None) -> file.Metadata:
    if metadata is None:
        raise errors.PlacementError(
            f"{path} is a database, not a snapshot of a cloud: save a snapshot of it first"
            " (placement snapshot save)"
        )
    if metadata.anonymized:
        raise errors.PlacementError(f"{path} is already anonymized")
    return metadata
