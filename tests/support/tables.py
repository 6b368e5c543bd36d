# SPDX-License-Identifier: Apache-2.0
"""The reference tables of the documentation, from the declarations of the code.

``python -m tests.support.tables`` writes them below ``doc/source``.
"""

from __future__ import annotations

import argparse
import csv
import inspect
import io
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from osc_placement.client import api
from osc_placement.plan import plan
from osc_placement.plan.kinds import registry
from osc_placement.scheduling import request, traits, verdict
from osc_placement.scheduling.case import SCHEDULED, Way
from osc_placement.scheduling.nova_options import DEFAULT_FILTERS
from osc_placement.scheduling.rule import Rule, Stage
from tests.support import commands, guide

FOLDER = guide.DOCS / "user" / "reference"
#: The help of an option ends with this sentence if the option needs a microversion.
NEEDS = re.compile(r"(?:Needs|from) Placement API (\d+\.\d+)")
#: Codes of every program; the table has the others.
USUAL = (0, 1, 2, 130)


def actions(entry: str) -> Iterator[argparse.Action]:
    """The own options of a command: those with a help text that is printed."""
    for action in commands.parser_of(entry)._actions:
        if action.option_strings and action.help != argparse.SUPPRESS:
            yield action


def options() -> str:
    """CSV: each option whose help names a microversion, with its commands, by version."""
    by_option: dict[tuple[tuple[int, ...], str], list[str]] = {}
    for entry in sorted(commands.PRESENT):
        for action in actions(entry):
            versions = NEEDS.findall(re.sub(r"\s+", " ", action.help or ""))
            for version in dict.fromkeys(versions):
                name = f"``{action.option_strings[-1]}``"
                if "from Placement API " + version in (action.help or ""):
                    name += " in part"
                key = (tuple(map(int, version.split("."))), name)
                by_option.setdefault(key, []).append(commands.command_name(entry))
    for entry in sorted(commands.PRESENT):
        feature = commands.load(commands.PRESENT[entry]).required_feature
        if feature is not None:
            found = commands.load("osc_placement.microversion:FEATURES")[feature]
            by_option.setdefault((tuple(found), "the whole command"), []).append(
                commands.command_name(entry)
            )
    rows = [
        (".".join(map(str, version)), name, ", ".join(f"``{item}``" for item in users))
        for (version, name), users in sorted(by_option.items())
    ]
    return _csv([("from", "option", "commands"), *rows])


def exit_codes() -> str:
    """CSV: a row for each command, a column for each code that not every program has."""
    documented = {
        commands.command_name(entry): set(commands.load(path).exit_codes)
        for entry, path in commands.PRESENT.items()
    }
    columns = sorted({code for codes in documented.values() for code in codes} - set(USUAL))
    rows = [
        (f"``{name}``", *("yes" if code in codes else "" for code in columns))
        for name, codes in sorted(documented.items())
        if codes - set(USUAL)
    ]
    return _csv([("command", *map(str, columns)), *rows])


def plan_schema() -> dict[str, Any]:
    """The JSON schema of a plan file, with the states of each kind of change."""
    document: dict[str, Any] = json.loads(json.dumps(plan.Plan.schema()))
    document["properties"]["digest"] = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
    document["properties"]["format_version"] = {"type": "integer"}
    document["required"] = sorted({*document["required"], "digest", "format_version"})
    by_kind = [
        {
            "if": {"properties": {"kind": {"const": name}}},
            "then": {
                "properties": {
                    side: {"anyOf": [{"$ref": f"#/$defs/{name}"}, {"type": "null"}]}
                    for side in ("before", "after")
                }
            },
        }
        for name in registry.CHANGE_TYPES
    ]
    for part in ("changes", "skipped"):
        items = document["properties"][part]["items"]
        items["properties"]["kind"] = {"enum": list(registry.CHANGE_TYPES)}
        items["allOf"] = by_kind
    states = {name: kind.state.schema() for name, kind in registry.CHANGE_TYPES.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A plan file of osc-placement",
        **document,
        "$defs": states,
    }


def _arguments(method: Callable[..., Any]) -> str:
    """The arguments of a method without types: ``(uuid, *, microversion=None)``."""
    _, *parameters = inspect.signature(method).parameters.values()
    plain = [item.replace(annotation=inspect.Parameter.empty) for item in parameters]
    return str(inspect.Signature(plain))


def client_methods() -> str:
    """CSV: the methods of the public client that send a request, with the start of their text."""
    methods = {
        f"{name}{_arguments(method)}": inspect.getdoc(method) or ""
        for name, method in vars(api.Client).items()
        if inspect.isfunction(method) and re.match("[A-Z]+ /", inspect.getdoc(method) or "")
    }
    rows = [
        (f"``{name}``", text.partition("\n\n")[0].replace("\n", " "))
        for name, text in methods.items()
    ]
    return _csv([("method", "request"), *rows])


def nova_rules() -> str:
    """CSV: the rules of nova that decide about a server and a host."""
    of_filters = [rule for rule in verdict.RULES if rule.stage is Stage.FILTER]
    off = {rule.name for rule in of_filters if not rule.is_always}.difference(DEFAULT_FILTERS)
    rows = [
        (
            f"``{rule.name}``",
            str(rule.stage),
            " ".join((rule.check.__doc__ or "").split()).removesuffix("."),
            _ways(rule),
            _releases(rule.since, rule.until),
            "if nova.conf enables it" if rule.name in off else "always",
        )
        for rule in verdict.RULES
    ]
    rows += [
        (
            item.step,
            str(Stage.QUERY),
            "A host that does not meet it",
            "all",
            _releases(item.since, traits.RELEASES[-1]),
            f"``{item.option}``" if item.option else "always",
        )
        for item in request.RULES
    ]
    return _csv([("rule", "who refuses", "what is refused", "ways", "nova", "enabled"), *rows])


def _ways(rule: Rule) -> str:
    return "all" if rule.ways == SCHEDULED else ", ".join(way for way in Way if way in rule.ways)


def _releases(since: int, until: int) -> str:
    if (since, until) == (traits.RELEASES[0], traits.RELEASES[-1]):
        return "all"
    return f"{since} to {until}" if until != traits.RELEASES[-1] else f"from {since} on"


def tables() -> dict[str, str]:
    """``{path below FOLDER: text}``."""
    return {
        "../../client.csv": client_methods(),
        "options.csv": options(),
        "exit-codes.csv": exit_codes(),
        "nova-rules.csv": nova_rules(),
        "plan.schema.json": json.dumps(plan_schema(), indent=1, sort_keys=True) + "\n",
    }


def _csv(rows: list[tuple[str, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def main() -> None:
    for name, text in tables().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
