# SPDX-License-Identifier: Apache-2.0
"""Names with control characters reach no terminal: not in tables, messages, errors or logs."""

from __future__ import annotations

import json
import pathlib
import random
from typing import Any

import pytest

from osc_placement import testing
from tests.support.peer import fixtures, shell, target as targets

#: ESC, CR, BEL, backspace, CSI, a line separator, bidirectional overrides, an unpaired surrogate.
EVIL = "\x1b[2J\r\x07\b\x9b2J\u2028\u202e\u2066\x7f"
RECORDED = "--os-nova-recording nova.json --allow recorded-nova"
HOST = "30098650-69f4-5c44-a585-79de80c723ad"
COMMANDS = (
    "resource provider list",
    f"resource provider show {HOST} --allocations",
    f"resource provider inventory list {HOST}",
    f"resource provider tree show {HOST}",
    "allocation candidate list --resource VCPU=1",
    "placement status show",
    f"placement allocation heal {RECORDED}",
    f"placement allocation heal {RECORDED} --dry-run -v",
    f"placement allocation audit {RECORDED}",
    f"placement allocation audit {RECORDED} --repair --undo-out undo.json",
    f"placement aggregate mirror {RECORDED}",
    f"placement migration run {RECORDED}",
    "resource provider inventory amend --all --resource VCPU:total=1",
    "resource provider trait add --all --trait COMPUTE_NODE -v",
    "placement plan show undo.json",
    "placement plan undo undo.json",
    "placement reshape moves.json",
)
ERRORS: tuple[tuple[str, ...], ...] = (
    ("resource", "provider", "create", f"cmp-0001{EVIL}.lab.example.org"),
    ("resource", "provider", "inventory", "amend", EVIL, "--resource", "VCPU:total=1"),
    ("resource", "provider", "inventory", "amend", "--all", "--resource", f"VCPU:total={EVIL}"),
    ("placement", "plan", "apply", f"no{EVIL}file"),
    ("trait", "create", f"CUSTOM_{EVIL}"),
)


def poisoned(document: Any) -> Any:
    """The document with EVIL in the names of hosts, servers and aggregates, and in owners."""
    text = json.dumps(document)
    evil = json.dumps(EVIL)[1:-1]
    for name in ("cmp-0001", "cmp-0002", "vm-0000", "al-double", "xx-no", "az1", "nfs-share"):
        text = text.replace(name, name + evil)
    return json.loads(text)


target = fixtures.only("loopback")


@pytest.fixture(autouse=True)
def cloud(openstack: shell.OpenStack, target: targets.Loopback) -> None:
    document = poisoned(testing.sample_cloud("12-hosts"))
    for consumer in document["consumers"].values():
        consumer["project"] += EVIL
    target.load(document)
    pathlib.Path("nova.json").write_text(json.dumps(poisoned(testing.sample_nova("12-hosts"))))
    move = {"from": f"cmp-0001{EVIL}.lab.example.org", "resources": {"VCPU": 1}, "to": EVIL}
    pathlib.Path("moves.json").write_text(json.dumps({"moves": [move]}))


def check(outcome: shell.Outcome) -> None:
    """Nothing but line feeds may control the terminal."""
    for text in (outcome.stdout, outcome.stderr):
        lines = text.split("\n")
        assert all(line.isprintable() for line in lines), repr(text)


def test_tables_and_messages_escape_names(openstack: shell.OpenStack) -> None:
    for command in COMMANDS:
        check(openstack.run(command))
        if "list" in command or "show" in command:
            check(openstack.run(command, "-f", "value"))


@pytest.mark.parametrize("words", ERRORS)
def test_errors_escape_names(openstack: shell.OpenStack, words: tuple[str, ...]) -> None:
    outcome = openstack.run("", *words)
    assert outcome.code != 0
    check(outcome)


def test_random_names_are_escaped_and_exact_in_json(
    openstack: shell.OpenStack, target: targets.Loopback
) -> None:
    chance = random.Random(0)
    names = {
        "".join(
            chr(chance.choice((chance.randrange(0xD800), chance.randrange(160)))) for _ in "x" * 9
        )
        for _ in range(60)
    }
    for name in names:
        target.ask("POST", "/resource_providers", {"name": name})
    check(openstack.run("resource provider list"))
    check(openstack.run("resource provider trait add --all --trait COMPUTE_NODE --dry-run"))
    assert names <= {row["name"] for row in openstack("resource provider list")}
