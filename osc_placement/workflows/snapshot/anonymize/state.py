"""Replaces the names in the records of a snapshot. Pure."""

from __future__ import annotations

from typing import Any

from osc_placement.workflows.snapshot import file, rewrite
from osc_placement.workflows.snapshot.anonymize import recording
from osc_placement.workflows.snapshot.anonymize.names import Names

#: The beginning of a note with the text of an error, which may contain anything.
_NOT_READ = "not read: "


class Anonymizer:
    """Returns each record with replaced names."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def provider(self, row: rewrite.ProviderRow) -> rewrite.ProviderRow:
        """UUIDs, name, custom resource classes, custom traits, aggregates."""
        names = self._names
        return row._replace(
            uuid=names.uuid(row.uuid),
            name=names.host(row.name),
            root_uuid=names.uuid(row.root_uuid),
            parent_uuid=names.uuid(row.parent_uuid) if row.parent_uuid else None,
            inventories={
                names.resource_class(name): fields for name, fields in row.inventories.items()
            },
            traits=[names.trait(name) for name in row.traits],
            aggregates=[names.uuid(uuid) for uuid in row.aggregates],
        )

    def consumer(self, row: rewrite.ConsumerRow) -> rewrite.ConsumerRow:
        """UUIDs, owner, a type that is not nova's, custom resource classes."""
        names = self._names
        return row._replace(
            uuid=names.uuid(row.uuid),
            project_id=names.project(row.project_id),
            user_id=names.user(row.user_id),
            consumer_type=names.consumer_type(row.consumer_type) if row.consumer_type else None,
            allocations={
                names.uuid(uuid): {
                    names.resource_class(name): amount for name, amount in resources.items()
                }
                for uuid, resources in row.allocations.items()
            },
        )

    def trait(self, name: str) -> str:
        """A custom trait."""
        return self._names.trait(name)

    def resource_class(self, name: str) -> str:
        """A custom resource class."""
        return self._names.resource_class(name)

    def note(self, note: file.Note) -> file.Note:
        """The UUIDs and names in a note; the text of an error is left out."""
        if note.text.startswith(_NOT_READ):
            return file.Note(self._names.uuid(note.uuid), f"{_NOT_READ}the error is left out")
        return file.Note(self._names.uuid(note.uuid), self._names.text(note.text))

    def response(self, request: str, body: Any) -> tuple[str, Any] | None:
        """A recorded response of nova or neutron; None for one that no command reads."""
        return recording.anonymize(self._names, request, body)
