"""Which texts of a snapshot are replaced, by what they name. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Set as AbstractSet

from osc_placement.engine import standard
from osc_placement.model import allocation, name as names
from osc_placement.workflows.snapshot import staging
from osc_placement.workflows.snapshot.anonymize.key import Kind

#: Returns the pseudonym of a name: ``replace(Kind.HOST, "cmp-1")``.
Replace = Callable[[Kind, str], str]

#: Values of owners that are not a project or a user.
_NO_OWNER = frozenset({allocation.PLACEHOLDER, staging.UNKNOWN_OWNER})
_NOVA_TYPES = frozenset({allocation.INSTANCE, allocation.MIGRATION, allocation.UNKNOWN_TYPE})

#: What separates the labels in the name of a provider; the address of a PCI device stays:
#: ``_pci_0000_84_00_0``, ``_0000:84:00.0``.
_SEPARATOR = re.compile(
    r"(_(?:pci_)?[0-9a-f]{4}[:_][0-9a-f]{2}[:_][0-9a-f]{2}[._][0-9a-f](?=$|[:_])|[:_])"
)
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_SYMBOL = re.compile(r"CUSTOM_[A-Z0-9_]+")


class Names:
    """Replaces names of each kind; equal names stay equal, and different ones different.

    ``known`` are names of traits and resource classes that are not custom but only the source
    knows. ``compared`` are the keys of the metadata of host aggregates, which nova compares with
    properties of images. ``keep_custom``: custom traits, resource classes and consumer types stay.
    """

    def __init__(
        self,
        replace: Replace,
        known: AbstractSet[str] = frozenset(),
        compared: AbstractSet[str] = frozenset(),
        *,
        keep_custom: bool = False,
    ) -> None:
        self.of = replace
        self.compared = compared
        self._known = known
        self._keep_custom = keep_custom

    def uuid(self, text: str) -> str:
        """A UUID, with or without dashes, as before."""
        if not names.is_uuid(text):
            return self.of(Kind.VALUE, text)
        pseudonym = self.of(Kind.UUID, names.canonical_uuid(text))
        return pseudonym if "-" in text else pseudonym.replace("-", "")

    def host(self, text: str) -> str:
        """A host, a hypervisor or a provider: ``cmp-1``, ``cmp-1.example.org_pci_0000_84_00_0``.

        The names of a host, of its compute node and of the providers below stay related.
        """
        if names.is_uuid(text):
            return self.uuid(text)
        first, *rest = _SEPARATOR.split(text)
        label, dot, domain = first.partition(".")
        return "".join(
            [
                self._label(Kind.HOST, label),
                dot,
                self._label(Kind.DOMAIN, domain),
                *(
                    each if _SEPARATOR.fullmatch(each) else self._label(Kind.PART, each)
                    for each in rest
                ),
            ]
        )

    def project(self, text: str) -> str:
        """A project; the placeholder stays."""
        return text if text in _NO_OWNER else self.of(Kind.PROJECT, text)

    def user(self, text: str) -> str:
        """A user; the placeholder stays."""
        return text if text in _NO_OWNER else self.of(Kind.USER, text)

    def trait(self, text: str) -> str:
        """A trait; standard ones stay."""
        return text if self._stays(text, standard.traits()) else self.of(Kind.TRAIT, text)

    def resource_class(self, text: str) -> str:
        """A resource class; standard ones stay."""
        stays = self._stays(text, frozenset(standard.RESOURCE_CLASSES))
        return text if stays else self.of(Kind.RESOURCE_CLASS, text)

    def consumer_type(self, text: str) -> str:
        """A consumer type; nova's stay."""
        stays = text in _NOVA_TYPES or self._keep_custom
        return text if stays else self.of(Kind.CONSUMER_TYPE, text)

    def text(self, text: str) -> str:
        """A sentence of this program: the UUIDs and custom names in it are replaced."""
        text = _UUID.sub(lambda match: self.uuid(match[0]), text)
        return _SYMBOL.sub(lambda match: self.resource_class(match[0]), text)

    def _stays(self, text: str, is_standard: AbstractSet[str]) -> bool:
        if text.startswith(names.CUSTOM_PREFIX):
            return self._keep_custom
        return text in is_standard or text in self._known

    def _label(self, kind: Kind, text: str) -> str:
        return self.of(kind, text) if text else ""
