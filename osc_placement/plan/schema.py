"""The JSON schema of plan files and journals.

A file is checked when it is read, so that a damaged or forged one causes one clear error. Each
kind of change provides the schema of its states.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from osc_placement.plan.kinds import forms, registry

#: The longest text that an error quotes.
_QUOTED = 200

_STATE = {"type": "object"}
_SUBJECT = forms.record(name=forms.TEXT, uuid=forms.TEXT)
_SERVER = forms.record(
    **dict.fromkeys(("host", "node", "vm_state", "task_state"), forms.OPTIONAL_TEXT),
    resources=forms.mapping(forms.AMOUNT),
)
_PRECONDITION = forms.record(server=forms.nullable(_SERVER), no_migration=forms.FLAG)
CHANGE = forms.record(
    kind=forms.TEXT,
    subject=_SUBJECT,
    before=_STATE,
    after=_STATE,
    generation={"type": ["integer", "null"]},
    reason=forms.TEXT,
    stage=forms.INTEGER,
    irreversible=forms.TEXT,
    precondition=forms.nullable(_PRECONDITION),
    group=forms.TEXT,
    capacity=forms.mapping(forms.INTEGER),
    over=forms.array(forms.TEXT),
)
SKIPPED = forms.record(
    kind=forms.TEXT,
    subject=_SUBJECT,
    before=forms.nullable(_STATE),
    after=forms.nullable(_STATE),
    reason=forms.TEXT,
    code=forms.TEXT,
    unchanged=forms.FLAG,
    refused=forms.FLAG,
)
#: A plan without its digest.
PLAN = forms.record(
    **dict.fromkeys(
        ("command", "target", "origin", "microversion", "created", "undoes"), forms.TEXT
    ),
    relative=forms.FLAG,
    **dict.fromkeys(("allow", "notes"), forms.array(forms.TEXT)),
    capacities=forms.mapping(
        forms.record(before=forms.INTEGER, after=forms.INTEGER, over=forms.INTEGER)
    ),
    names=forms.mapping(forms.TEXT),
    existing=forms.mapping(forms.AMOUNT),
    max_percent={"type": ["integer", "null"], "minimum": 0, "maximum": 100},
    format_version=forms.INTEGER,
    identity=forms.record(url=forms.TEXT, region=forms.TEXT, file=forms.TEXT),
    changes=forms.array(CHANGE),
    skipped=forms.array(SKIPPED),
)
#: One line of a journal.
LINE = forms.record({"before": _STATE}, key=forms.TEXT, state=forms.TEXT)

#: The key of a line that describes the run.
RUN_KEY = "run"
RUN = forms.record(
    {
        **dict.fromkeys(("target", "command", "created", "plan", "undo"), forms.TEXT),
        "changes": forms.INTEGER,
        "is_undo": forms.FLAG,
        "unfinished": forms.FLAG,
    }
)


def check_plan(document: Any) -> None:
    """Check the document of a plan file. Errors: ValueError with the place and the reason."""
    _check("plan", document)
    for part in ("changes", "skipped"):
        for number, item in enumerate(document[part]):
            for side in ("before", "after"):
                _check_state(item["kind"], item[side], f"{part}[{number}].{side}")


def check_line(document: Any) -> None:
    """Check a line of a journal. Errors: ValueError with the place and the reason."""
    if isinstance(document, dict) and document.keys() == {RUN_KEY}:
        _check(RUN_KEY, document[RUN_KEY], RUN_KEY)
        return
    _check("line", document)
    _check_state(document["key"].rpartition(" ")[0], document.get("before"), "before")


def _check_state(kind: str, state: Any, place: str) -> None:
    if kind not in registry.CHANGE_TYPES:
        raise ValueError(f"unknown kind of change {kind!r}")
    if state is not None:
        _check(kind, state, place)


def _check(name: str, document: Any, place: str = "") -> None:
    validate = _validator(name)
    error = validate(document)
    if error is not None:
        path, message = error
        where = ".".join(part for part in (place, path) if part)
        short = message if len(message) <= _QUOTED else f"{message[:_QUOTED]}..."
        raise ValueError(f"{where}: {short}" if where else short)


@functools.cache
def _validator(name: str) -> Callable[[Any], tuple[str, str] | None]:
    """A function that returns the place and the text of the first error; None without one."""
    # Imported here: most commands read no plan file.
    import jsonschema

    schemas: Mapping[str, forms.Schema] = {"plan": PLAN, "line": LINE, RUN_KEY: RUN}
    schema = schemas.get(name) or registry.CHANGE_TYPES[name].schema
    validator = jsonschema.Draft202012Validator(schema)

    def first_error(document: Any) -> tuple[str, str] | None:
        for error in validator.iter_errors(document):
            return error.json_path.removeprefix("$").removeprefix("."), error.message
        return None

    return first_error
