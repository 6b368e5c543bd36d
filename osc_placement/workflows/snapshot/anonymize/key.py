"""The key of anonymized snapshots: which pseudonym each real name has.

The next snapshot of the cloud gets the same pseudonyms from the same key.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import json
import pathlib
import secrets
import uuid
from collections.abc import Iterable, Mapping

from osc_placement import errors
from osc_placement.model import name as names
from osc_placement.nova import flavor
from osc_placement.plan import file as plan_file

FORMAT_VERSION = 1

#: Digits of the number in a pseudonym, so that pseudonyms sort as the names did.
_DIGITS = 5

#: Beginnings of resource classes that have a meaning for nova; the pseudonym keeps them.
_CLASS_PREFIXES = (flavor.PMEM_PREFIX, "CUSTOM_PCI_", names.CUSTOM_PREFIX, "")


class Kind(enum.StrEnum):
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
class Key:
    """``origin`` identifies the cloud; ``identity`` is what anonymized files show of the key.

    ``pseudonyms`` is ``{kind: {name: pseudonym}}``.
    """

    origin: str
    identity: str
    pseudonyms: Mapping[Kind, dict[str, str]]

    def pseudonym(self, kind: Kind, text: str) -> str:
        """The pseudonym of a name that was added."""
        return self.pseudonyms[kind][text]

    def add(self, found: Mapping[Kind, Iterable[str]]) -> None:
        """Give each new name a pseudonym that is not the name of anything else.

        New names are numbered in their order, so the first snapshot keeps the order of names.
        """
        taken = {text for texts in (*found.values(), *self.pseudonyms.values()) for text in texts}
        for kind, texts in found.items():
            known = self.pseudonyms[kind]
            new = sorted(set(texts) - known.keys())
            taken.update(known.values())
            numbers = itertools.count(len(known) + 1)
            for text in new:
                known[text] = next(
                    pseudonym
                    for pseudonym in (_make(kind, text, at) for at in numbers)
                    if pseudonym not in taken
                )


def create(origin: str) -> Key:
    """A new key for a cloud."""
    return Key(origin, f"anonymized-{secrets.token_hex(4)}", {kind: {} for kind in Kind})


def read(path: pathlib.Path) -> Key | None:
    """The key in a file; None without the file. Errors: PlacementError, which names it."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format_version"] != FORMAT_VERSION:
            raise errors.PlacementError(f"{path} was written by another version of this program")
        known = document["pseudonyms"]
        pseudonyms = {
            kind: {str(text): str(pseudonym) for text, pseudonym in known.get(kind, {}).items()}
            for kind in Kind
        }
        return Key(str(document["origin"]), str(document["identity"]), pseudonyms)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise errors.PlacementError(
            f"{path} is not a key file ({error}): give another --key-file; nothing was changed"
        ) from error


def write(path: pathlib.Path, key: Key) -> None:
    """Write the file completely or not at all, mode 0600. Errors: PlacementError."""
    document = {
        "format_version": FORMAT_VERSION,
        "origin": key.origin,
        "identity": key.identity,
        "pseudonyms": {str(kind): known for kind, known in key.pseudonyms.items()},
    }
    plan_file.replace(path, [json.dumps(document, indent=1), "\n"])


def _make(kind: Kind, text: str, number: int) -> str:
    if kind is Kind.UUID:
        # In the order of numbers, and otherwise random: it cannot be the UUID of anything else.
        return f"{number:08x}{str(uuid.uuid4())[8:]}"
    padded = f"{number:0{_DIGITS}}"
    if kind is Kind.TRAIT:
        prefix = names.CUSTOM_PREFIX if text.startswith(names.CUSTOM_PREFIX) else ""
        return f"{prefix}ANON_TRAIT_{padded}"
    if kind is Kind.RESOURCE_CLASS:
        prefix = next(each for each in _CLASS_PREFIXES if text.startswith(each))
        return f"{prefix}ANON_CLASS_{padded}"
    if kind is Kind.CONSUMER_TYPE:
        return f"ANON_TYPE_{padded}"
    if kind is Kind.GROUP:
        return f"_ANON{padded}"
    return f"anon-{kind}-{padded}"
