# SPDX-License-Identifier: Apache-2.0
"""JSON of other programs: depth, size, encoding, and files that have no end."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import re

import pytest

import osc_placement
from osc_placement.model import json_text

DEEP = "[" * 200_000


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (DEEP, "nested too deeply"),
        ('{"a":' * 200_000, "nested too deeply"),
        (b"\xff\xfe{\x00}\x00", "byte 0 is not UTF-8"),
        ("{", "line 1 column 2"),
        ("9" * 5_000, "digits"),
        ('{"generation": 1e400}', "1e400 is not a finite number"),
        ("[NaN, -Infinity]", "NaN is not a finite number"),
        ("", "Expecting value"),
        (r'["\ud83d"]', "surrogates not allowed"),
        (r'{"\uDE00\ud83d": 1}', "surrogates not allowed"),
    ],
)
def test_a_text_that_is_not_json_is_one_error_with_its_source(
    text: str | bytes, reason: str
) -> None:
    with pytest.raises(json_text.NotJson, match=f"^nova: .*{reason}"):
        json_text.parse(text, "nova")


def test_a_pair_of_surrogates_is_a_character() -> None:
    assert json_text.parse(r'["\ud83d\uDE00", "\\ud83d"]') == ["\U0001f600", r"\ud83d"]


def test_a_file_is_not_nested_in_more_levels_than_other_code_can_follow(
    tmp_path: pathlib.Path,
) -> None:
    path = tmp_path / "file"
    path.write_text("[" * 100 + "]" * 100)
    assert json_text.read(path)
    path.write_text("[" * 101 + "]" * 101)
    with pytest.raises(json_text.NotJson, match=f"{path}: .* more than 100 levels"):
        json_text.read(path)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_levels_are_counted_in_parts_of_any_size(size: int) -> None:
    strings = [r"[[[", r"\\", '\\"[[', r"\\\\\"{{", "é]"]
    value: object = strings
    for number in range(json_text.MAX_LEVELS - 1):
        value = [value, *strings] if number % 2 else {"[": value}
    for allowed, text in [(True, json.dumps(value)), (False, json.dumps([value]))]:
        file = json_text.LimitedFile(io.BytesIO(text.encode()), "a file")
        with (
            contextlib.nullcontext()
            if allowed
            else pytest.raises(json_text.NotJson, match=r"^a file: .* more than 100 levels")
        ):
            while file.read(size):
                pass


def test_a_device_or_a_huge_file_is_not_read(tmp_path: pathlib.Path) -> None:
    with pytest.raises(json_text.NotJson, match="/dev/zero: a device and not a file"):
        json_text.read(pathlib.Path("/dev/zero"))
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(json_text.MAX_BYTES + 1)
    with pytest.raises(json_text.NotJson, match="more than 1024 MiB"):
        json_text.read(huge)


#: Modules that parse JSON which this program wrote: rows of databases, compressed recordings,
#: samples of the package; and the server, whose requests have rules of their own.
OWN = {
    "model/json_text.py",
    "model/recording.py",
    "samples/sample.py",
    "server/context.py",
    "server/store/sqlite.py",
    "testing/traffic.py",
    "workflows/reshape/documents.py",
    "workflows/snapshot/file.py",
}


def test_no_other_module_parses_json_of_others() -> None:
    root = pathlib.Path(osc_placement.__file__).parent
    parsing = re.compile(r"json\.loads?\b|orjson\.loads|\.json\(\)")
    modules = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if parsing.search(path.read_text())
    }
    # The names of version 4, which get the responses of keystoneauth.
    assert modules - OWN - {"http.py"} == set()
