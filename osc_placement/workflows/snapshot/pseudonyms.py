# SPDX-License-Identifier: Apache-2.0
"""Pseudonyms: which texts get one, by what they name, and the key file that keeps them.

The next snapshot of the cloud gets the same pseudonyms from the same key.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import json
import pathlib
import re
import secrets
import uuid
from collections.abc import Callable, Iterable, Mapping, Set as AbstractSet

from osc_placement import errors
from osc_placement.engine import standard
from osc_placement.model import allocation, json_text
from osc_placement.model.name import CUSTOM_PREFIX, canonical_uuid, is_uuid
from osc_placement.nova import flavor
from osc_placement.plan import file as plan_file
from osc_placement.workflows.snapshot import readings

FORMAT_VERSION = 1

#: Digits of the number in a pseudonym, so that pseudonyms sort as the names did.
_DIGITS = 5

#: Beginnings of resource classes that have a meaning for nova; the pseudonym keeps them.
_CLASS_PREFIXES = (flavor.PMEM_PREFIX, "CUSTOM_PCI_", CUSTOM_PREFIX, "")


class NameKind(enum.StrEnum):
    """What a name belongs to; a name has one pseudonym in each kind.

    A name of a host is a first label (HOST), a domain, and for a provider below a compute node
    more labels (PART).
    """

    UUID = "uuid"
    HOST = "host"
    DOMAIN = "domain"
    PART = "part"
    PROJECT = "project"
    USER = "user"
    SERVER = "server"
    FLAVOR = "flavor"
    AGGREGATE = "aggregate"
    ZONE = "zone"
    PORT = "port"
    TRAIT = "trait"
    RESOURCE_CLASS = "class"
    CONSUMER_TYPE = "type"
    GROUP = "group"
    VALUE = "value"


@dataclasses.dataclass(frozen=True, slots=True)
class PseudonymKey:
    """``origin`` identifies the cloud; ``identity`` is what anonymized files show of the key.

    ``pseudonyms`` is ``{kind: {name: pseudonym}}``.
    """

    origin: str
    identity: str
    pseudonyms: Mapping[NameKind, dict[str, str]]

    def pseudonym(self, kind: NameKind, text: str) -> str:
        """The pseudonym of a name that was added."""
        return self.pseudonyms[kind][text]

    def add(self, texts_by_kind: Mapping[NameKind, Iterable[str]]) -> None:
        """Give each new name a pseudonym that is not the name of anything else.

        New names are numbered in their order, so the first snapshot keeps the order of names.
        """
        taken = {
            text for texts in (*texts_by_kind.values(), *self.pseudonyms.values()) for text in texts
        }
        for kind, texts in texts_by_kind.items():
            pseudonyms = self.pseudonyms[kind]
            new = sorted(set(texts) - pseudonyms.keys())
            taken.update(pseudonyms.values())
            numbers = itertools.count(len(pseudonyms) + 1)
            for text in new:
                pseudonyms[text] = next(
                    pseudonym
                    for pseudonym in (_make(kind, text, at) for at in numbers)
                    if pseudonym not in taken
                )


def create(origin: str) -> PseudonymKey:
    """A new key for a cloud."""
    return PseudonymKey(
        origin, f"anonymized-{secrets.token_hex(4)}", {kind: {} for kind in NameKind}
    )


def read(path: pathlib.Path) -> PseudonymKey | None:
    """The key in a file; None without the file. Errors: PlacementError, which names it."""
    try:
        document = json_text.read(path)
        if document["format_version"] != FORMAT_VERSION:
            raise errors.PlacementError(f"{path} was written by another version of this program")
        by_kind = document["pseudonyms"]
        pseudonyms = {
            kind: {str(text): str(pseudonym) for text, pseudonym in by_kind.get(kind, {}).items()}
            for kind in NameKind
        }
        return PseudonymKey(str(document["origin"]), str(document["identity"]), pseudonyms)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise errors.PlacementError(
            f"{path} is not a key file ({error}): give another --key-file; nothing was changed"
        ) from error


def write(path: pathlib.Path, key: PseudonymKey) -> None:
    """Write the file completely or not at all, mode 0600. Errors: PlacementError."""
    document = {
        "format_version": FORMAT_VERSION,
        "origin": key.origin,
        "identity": key.identity,
        "pseudonyms": {str(kind): by_name for kind, by_name in key.pseudonyms.items()},
    }
    plan_file.replace(path, [json.dumps(document, indent=1), "\n"])


def _make(kind: NameKind, text: str, number: int) -> str:
    if kind is NameKind.UUID:
        # In the order of numbers, and otherwise random: it cannot be the UUID of anything else.
        return f"{number:08x}{str(uuid.uuid4())[8:]}"
    padded = f"{number:0{_DIGITS}}"
    if kind is NameKind.TRAIT:
        prefix = CUSTOM_PREFIX if text.startswith(CUSTOM_PREFIX) else ""
        return f"{prefix}ANON_TRAIT_{padded}"
    if kind is NameKind.RESOURCE_CLASS:
        prefix = next(beginning for beginning in _CLASS_PREFIXES if text.startswith(beginning))
        return f"{prefix}ANON_CLASS_{padded}"
    if kind is NameKind.CONSUMER_TYPE:
        return f"ANON_TYPE_{padded}"
    if kind is NameKind.GROUP:
        return f"_ANON{padded}"
    return f"anon-{kind}-{padded}"


#: Returns the pseudonym of a name: ``replace(NameKind.HOST, "cmp-1")``.
Replace = Callable[[NameKind, str], str]

#: Values of owners that are not a project or a user.
_NO_OWNER = frozenset({allocation.PLACEHOLDER, readings.UNKNOWN_OWNER})
_NOVA_TYPES = frozenset({allocation.INSTANCE, allocation.MIGRATION, allocation.UNKNOWN_TYPE})

#: What separates the labels in the name of a provider; the address of a PCI device stays:
#: ``_pci_0000_84_00_0``, ``_0000:84:00.0``.
_SEPARATOR = re.compile(
    r"(_(?:pci_)?[0-9a-f]{4}[:_][0-9a-f]{2}[:_][0-9a-f]{2}[._][0-9a-f](?=$|[:_])|[:_])"
)
#: A UUID as the name of a host or provider. Names in its other forms are names of their own.
_UUID_NAME = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{32}")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_SYMBOL = re.compile(r"CUSTOM_[A-Z0-9_]+")


class Pseudonyms:
    """Replaces names of each kind; equal names stay equal, and different ones different.

    ``standard_names`` are names of traits and resource classes that are not custom but only the
    source knows. ``compared`` are the keys of the metadata of host aggregates, which nova compares
    with properties of images.
    """

    def __init__(
        self,
        replace: Replace,
        standard_names: AbstractSet[str] = frozenset(),
        compared: AbstractSet[str] = frozenset(),
    ) -> None:
        self.of = replace
        self.compared = compared
        self._standard = standard_names

    def uuid(self, text: str) -> str:
        """A UUID, with or without dashes, as before."""
        if not is_uuid(text):
            return self.of(NameKind.VALUE, text)
        pseudonym = self.of(NameKind.UUID, canonical_uuid(text))
        return pseudonym if "-" in text else pseudonym.replace("-", "")

    def host(self, text: str) -> str:
        """A host, a hypervisor or a provider: ``cmp-1``, ``cmp-1.example.org_pci_0000_84_00_0``.

        The names of a host, of its compute node and of the providers below stay related.
        """
        first, *rest = _SEPARATOR.split(text)
        label, dot, domain = first.partition(".")
        return "".join(
            [
                self.uuid(label)
                if _UUID_NAME.fullmatch(label)
                else self._label(NameKind.HOST, label),
                dot,
                self._label(NameKind.DOMAIN, domain),
                *(
                    label if _SEPARATOR.fullmatch(label) else self._label(NameKind.PART, label)
                    for label in rest
                ),
            ]
        )

    def project(self, text: str) -> str:
        """A project; the placeholder stays."""
        return text if text in _NO_OWNER else self.of(NameKind.PROJECT, text)

    def user(self, text: str) -> str:
        """A user; the placeholder stays."""
        return text if text in _NO_OWNER else self.of(NameKind.USER, text)

    def trait(self, text: str) -> str:
        """A trait; standard ones stay."""
        stays = text in standard.traits() or text in self._standard
        return text if stays else self.of(NameKind.TRAIT, text)

    def resource_class(self, text: str) -> str:
        """A resource class; standard ones stay."""
        stays = text in standard.RESOURCE_CLASSES or text in self._standard
        return text if stays else self.of(NameKind.RESOURCE_CLASS, text)

    def consumer_type(self, text: str) -> str:
        """A consumer type; nova's stay."""
        return text if text in _NOVA_TYPES else self.of(NameKind.CONSUMER_TYPE, text)

    def text(self, text: str) -> str:
        """A sentence of this program: the UUIDs and custom names in it are replaced."""
        text = _UUID.sub(lambda match: self.uuid(match[0]), text)
        return _SYMBOL.sub(lambda match: self.resource_class(match[0]), text)

    def _label(self, kind: NameKind, text: str) -> str:
        return self.of(kind, text) if text else ""
