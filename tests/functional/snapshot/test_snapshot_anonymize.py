# SPDX-License-Identifier: Apache-2.0
"""An anonymized snapshot has no name of its source, and commands give the same answers on it."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from osc_placement.samples import sample
from tests.support.peer import fixtures, shell, target as targets

REAL, ANONYMIZED, KEY = "real.sqlite", "anonymized.sqlite", "key.json"
ANONYMIZE = "placement snapshot anonymize"
SAVE = "placement snapshot save"
RECORDING = ("--os-nova-recording", "12-hosts")

#: Words in the sample that nova and Placement define, which the anonymized file also has.
DEFINED = frozenset(
    {
        *("/dev/vda", "00000000-0000-0000-0000-000000000000", "compute", "dedicated", "flavors"),
        *("active", "building", "deleted", "error", "paused", "rescued", "resized", "shelved"),
        *("shelved_offloaded", "soft-delete", "stopped", "suspended", "rebooting", "spawning"),
        *("resize_migrating", "enabled", "isolate", "mixed", "required", "true", "load"),
        *("confirmed", "finished", "migrating", "queued", "running", "live-migration", "resize"),
        *("migration", "migrations", "normal", "nova", "nova-compute", "provider", "resource"),
        *("resources", "servers", "up", "v2.1"),
    }
)
STANDARD = re.compile(r"(?!CUSTOM_)[A-Z0-9_]+")
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z?|[\d.,-]+")


@pytest.fixture
def target(tmp_path: pathlib.Path) -> Iterator[targets.Target]:
    yield from fixtures.embedded("embedded", tmp_path)


@pytest.fixture
def saved(openstack: shell.OpenStack, target: targets.Target) -> targets.Target:
    """The sample cloud, saved with nova as REAL."""
    target.load("12-hosts")
    openstack(SAVE, REAL, "--with-nova", *RECORDING)
    return target


def anonymize(openstack: shell.OpenStack, source: str = REAL, new: str = ANONYMIZED) -> Any:
    return openstack(ANONYMIZE, source, new, "--key-file", KEY)


def pseudonyms() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(pathlib.Path(KEY).read_text())["pseudonyms"]
    return found


def reveal(text: str) -> str:
    """The text with real names, by the key file alone."""
    real = {made: name for known in pseudonyms().values() for name, made in known.items()}
    pattern = r"anon-[a-z]+-\d+|[A-Z_]*ANON_[A-Z]+_\d+|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
    return re.sub(pattern, lambda match: real.get(match[0], match[0]), text)


def run(file: str, *words: str) -> shell.Outcome:
    return shell.run(["--os-placement-database", file, *words, "-f", "json"])


def texts(value: Any) -> Iterator[str]:
    """All values of a document, and the keys that are names."""
    if isinstance(value, dict):
        for key, item in value.items():
            if re.search(r"CUSTOM_|[0-9a-f]{8}-[0-9a-f]{4}", key):
                yield key
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, str):
        yield value


def identifying(document: Any) -> set[str]:
    """The texts of a source, and the words in them, that its anonymized file must not have."""
    whole = set(texts(document))
    words = whole | {word for text in whole for word in re.split(r"[^\w.-]", text) if word[3:]}
    bare = {word.replace("-", "") for word in words if re.fullmatch(r"[0-9a-f-]{36}", word)}
    return {
        word
        for word in (words | bare) - DEFINED
        if word and not STANDARD.fullmatch(word) and not TIME.fullmatch(word)
    }


def test_no_name_of_the_source_is_in_the_bytes(
    openstack: shell.OpenStack, saved: targets.Target
) -> None:
    made = anonymize(openstack)
    shown = openstack("placement snapshot show", ANONYMIZED)
    assert shown["source"]
    assert all(made[key] == shown[key] for key in ("source", "resource_providers", "consumers"))
    names = identifying([sample.sample_cloud("12-hosts"), sample.sample_nova("12-hosts"), REAL])
    names.add(str(pathlib.Path.cwd()))
    assert len(names) > 700
    real = pathlib.Path(REAL).read_bytes()
    assert sum(name.encode() in real for name in names) > 500
    data = pathlib.Path(ANONYMIZED).read_bytes()
    assert [name for name in sorted(names) if name.encode() in data] == []
    assert sorted(path.name for path in pathlib.Path().glob("*.sqlite*")) == sorted(
        [REAL, ANONYMIZED, "placement.sqlite"]
    )
    assert {pathlib.Path(name).stat().st_mode & 0o777 for name in (ANONYMIZED, KEY)} == {0o600}


COMMANDS = (
    "resource provider list",
    "resource class list",
    "resource provider trait compare --all",
    "trait list --name startswith:CUSTOM_",
    "allocation candidate list --resource VCPU=1 --resource MEMORY_MB=512",
    "allocation candidate explain --flavor {flavor[m1.small]} --availability-zone {zone[az1]}",
    "allocation candidate explain --resource VCPU=100000",
    "placement allocation audit",
    "placement allocation heal --dry-run",
    "placement aggregate mirror --dry-run --prune",
    "placement capacity show --flavor {flavor[m1.small]} --by zone",
    "placement flavor audit",
)


def rows(text: str) -> list[str]:
    """The rows of an answer, in an order that does not depend on names."""
    found = json.loads(text)
    return sorted(json.dumps(row, sort_keys=True) for row in found)


def test_the_commands_give_the_same_answers_apart_from_names(
    openstack: shell.OpenStack, saved: targets.Target
) -> None:
    anonymize(openstack)
    known = pseudonyms()
    real = {kind: {name: name for name in names} for kind, names in known.items()}
    for command in COMMANDS:
        expected = run(REAL, *command.format(**real).split())
        found = run(ANONYMIZED, *command.format(**known).split())
        assert rows(expected.stdout), command
        assert rows(reveal(found.stdout)) == rows(expected.stdout), command
        assert found.code == expected.code, command


def test_the_same_key_gives_the_same_pseudonyms_to_the_next_snapshot(
    openstack: shell.OpenStack, saved: targets.Target
) -> None:
    anonymize(openstack)
    before = pseudonyms()
    openstack.do("resource provider create", "new-host")
    openstack.do("resource provider trait add --trait HW_CPU_X86_SGX cmp-0001.lab.example.org")
    openstack(SAVE, "next.sqlite", "--with-nova", *RECORDING)
    anonymize(openstack, "next.sqlite", "next-anonymized.sqlite")
    after = pseudonyms()
    assert {kind: names.items() <= after[kind].items() for kind, names in before.items()} == (
        dict.fromkeys(before, True)
    )
    diff = ("placement", "snapshot", "diff", "-f", "json")
    expected = shell.run([*diff, REAL, "next.sqlite"])
    found = shell.run([*diff, ANONYMIZED, "next-anonymized.sqlite"])
    assert (found.code, expected.code) == (3, 3)
    assert rows(reveal(found.stdout)) == rows(expected.stdout)
    pathlib.Path("queries.txt").write_text("resources=VCPU:1\n")
    replay = ("placement", "query", "replay", "--queries", "queries.txt")
    for command in (diff, replay):
        mixed = shell.run([*command, REAL, ANONYMIZED])
        assert mixed.code == 1
        assert "do not have the same pseudonyms" in mixed.stderr


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((ANONYMIZE, REAL, REAL, "--key-file", KEY), 1, "real.sqlite exists"),
        ((ANONYMIZE, "placement.sqlite", "b", "--key-file", KEY), 1, "is a database, not"),
        ((ANONYMIZE, ANONYMIZED, "b", "--key-file", KEY), 1, "is already anonymized"),
        ((ANONYMIZE, REAL, "b", "--key-file", REAL), 1, "is not a key file"),
        ((ANONYMIZE, REAL, "b", "--key-file", "other.json"), 1, "is the key of snapshots of"),
        ((SAVE, ANONYMIZED), 1, "exists: give another file; nothing was changed"),
        ((ANONYMIZE, REAL, "b", "--key-file", "b"), 1, "cannot be the key file too"),
        ((ANONYMIZE, REAL, "b", "--key-file", "no/key"), 1, "folder no does not exist"),
        ((ANONYMIZE, REAL, "no/b", "--key-file", KEY), 1, "folder no does not exist"),
    ],
)
def test_a_wrong_file_or_key_is_refused(
    openstack: shell.OpenStack,
    saved: targets.Target,
    words: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    anonymize(openstack)
    document = json.loads(pathlib.Path(KEY).read_text())
    pathlib.Path("other.json").write_text(json.dumps({**document, "origin": "elsewhere"}))
    outcome = openstack.run(words[0], *words[1:])
    assert outcome.code == code
    assert message in outcome.stderr
    assert not pathlib.Path("b").exists()
    assert not pathlib.Path("no").exists()
