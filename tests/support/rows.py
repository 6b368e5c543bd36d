# SPDX-License-Identifier: Apache-2.0
"""Functional tests as rows of a table: a command line, a state, an exit code, what is shown.

The command line is what an operator types after ``openstack``. The state is a key of the ``STATES``
of the test module. Expected is the answer in JSON, or texts::

    STATES = {"two hosts": State(testing.Cloud().host("one", VCPU=8).host("two", VCPU=8))}

    TABLE = [
        Row("placement host check one --no-nova", "two hosts", 0, {"answer": "yes"}),
        Row("placement host check three", "two hosts", 1, "No resource provider"),
    ]

    test_host_check = checked(TABLE, STATES)

A mapping is an object with at least these fields; rows that have a section are ``{section: rows}``.
A list has as many items in this order, and ``[..., item]`` has this one among others. A tuple is
texts that stand somewhere, ``...`` is any value but null, and anything else is equal. A set is all
lines of stdout in any order (``-f value -c name``). Of several command lines, all but the last must
succeed.
"""

from __future__ import annotations

import json
import pathlib
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from osc_placement import testing
from osc_placement.testing import nova
from tests.support.peer import target as targets
from tests.support.peer.shell import OpenStack, Outcome


def nova_recording(answers: Mapping[str, Any], file: str = "nova.json") -> tuple[str, str]:
    """The options for a recording of nova's answers, with empty lists for what they lack.

    An answer of None is left out.
    """
    empty = nova.answers(aggregates=[], server_groups=[], servers=[], migrations=[])
    recorded = {path: body for path, body in {**empty, **answers}.items() if body is not None}
    pathlib.Path(file).write_text(json.dumps(recorded))
    return "--os-nova-recording", file


def hosts(*names: str, **services: Mapping[str, Any]) -> testing.Cloud:
    """Compute hosts of 8 VCPU and 64 MiB; nova's name of the node ``a`` is ``nova-a``."""
    cloud = testing.Cloud("nova-{}")
    for name in names:
        cloud.compute(name, service=services.get(name), VCPU=8, MEMORY_MB=64)
    return cloud


class State(NamedTuple):
    """A cloud, nova's answers, files in the working directory, and commands that went before.

    ``nova`` changes the answers of nova that the cloud has, if it has a node; None is no answer.
    ``first`` is a state before this one, whose files stay; ``change`` changes files at the end.
    """

    cloud: testing.Cloud | targets.Cloud
    nova: Mapping[str, Any] | None = None
    files: Mapping[str, str] = {}
    before: Sequence[str] = ()
    first: State | None = None
    change: Callable[[], object] = bool

    def arrange(self, openstack: OpenStack) -> None:
        """Make the state; a command that went before may end with any code but 1 and 2."""
        if self.first:
            self.first.arrange(openstack)
        cloud = self.cloud
        openstack.target.load(cloud.document() if isinstance(cloud, testing.Cloud) else cloud)
        for name, text in self.files.items():
            pathlib.Path(name).write_text(text)
        for line in self.before:
            ended = self.run(openstack, line)
            assert ended.code not in (1, 2), ended
        self.change()

    def run(self, openstack: OpenStack, line: str, *more: str) -> Outcome:
        """The outcome of a command line, with the recording of nova."""
        answers = self.cloud.nova() if isinstance(self.cloud, testing.Cloud) else {}
        is_there = bool(answers.get("GET /v2.1/os-services", {}).get("services"))
        answers = (answers if is_there else {}) | (self.nova or {})
        options = nova_recording(answers) if answers else ()
        return openstack.run("", *options, *shlex.split(line), *more)


class Absent(str):
    """A text that does not stand there."""

    __slots__ = ()


class Row(NamedTuple):
    """One command and what it must answer; ``says`` are texts of standard error.

    ``unchanged``: the cloud is the same after it.
    """

    line: str
    state: str
    code: int
    shows: Any = ()
    says: str | tuple[str, ...] = ()
    unchanged: bool = False

    def check(self, openstack: OpenStack, states: Mapping[str, State | testing.Cloud]) -> None:
        """Run the command in its state, or on the sample of this name, and compare."""
        found = states.get(self.state, self.state)
        state = found if isinstance(found, State) else State(found)
        state.arrange(openstack)
        *earlier, last = lines_of(self.line)
        for line in earlier:
            assert (ended := state.run(openstack, line)).code == 0, ended
        cloud = openstack.target.state() if self.unchanged else None
        is_text = isinstance(self.shows, str | tuple)
        is_json = not is_text and not isinstance(self.shows, set)
        outcome = state.run(openstack, last, *(("-f", "json") if is_json else ()))
        assert outcome.code == self.code, outcome
        assert "Traceback" not in outcome.stderr
        assert not self.unchanged or openstack.target.state() == cloud
        texts = (*texts_of(self.says), *(texts_of(self.shows) if is_text else ()))
        shown = one_line(outcome.stderr + outcome.stdout * is_text)
        wrong = [text for text in texts if (text in shown) is isinstance(text, Absent)]
        assert wrong == [], outcome
        if is_json:
            unequal = [*differences(self.shows, by_section(json.loads(outcome.stdout)))]
            assert not unequal, "\n".join(unequal)
        elif not is_text:
            assert sorted(outcome.stdout.splitlines()) == sorted(self.shows), outcome


def checked(
    rows: Sequence[Row], states: Mapping[str, State | testing.Cloud]
) -> Callable[[Row, OpenStack], None]:
    """A test that checks each row."""
    ids = [f"{lines_of(row.line)[-1]} [{row.state}]" for row in rows]

    @pytest.mark.parametrize("row", rows, ids=ids)
    def test(row: Row, openstack: OpenStack) -> None:
        row.check(openstack, states)

    return test


def lines_of(text: str) -> list[str]:
    """The command lines of a row."""
    return [line.strip() for line in text.strip().splitlines()]


def texts_of(texts: str | tuple[str, ...]) -> tuple[str, ...]:
    """One text or several."""
    return (texts,) if isinstance(texts, str) else texts


def by_section(answer: Any) -> Any:
    """``{section: rows}`` of an answer whose rows have a section."""
    if not (isinstance(answer, list) and answer and "section" in answer[0]):
        return answer
    sections: dict[str, list[Any]] = {}
    for row in answer:
        sections.setdefault(row["section"], []).append(row)
    return sections


def differences(expected: Any, shown: Any, where: str = "") -> Iterator[str]:
    """What differs from the expected answer, each with its place."""
    if isinstance(expected, Mapping) and isinstance(shown, Mapping):
        for key, value in expected.items():
            yield from differences(value, shown.get(key), f"{where}.{key}")
    elif isinstance(expected, list) and expected[:1] == [...]:
        for value in expected[1:]:
            if all([*differences(value, item)] for item in shown or ()):
                yield f"{where}: no item of {shown!r} is {value!r}"
    elif isinstance(expected, list) and isinstance(shown, list) and len(expected) == len(shown):
        for number, (value, item) in enumerate(zip(expected, shown, strict=True)):
            yield from differences(value, item, f"{where}[{number}]")
    elif isinstance(expected, tuple):
        text = one_line(shown if isinstance(shown, str) else json.dumps(shown))
        yield from (f"{where}: {shown!r} lacks {word!r}" for word in expected if word not in text)
    elif shown is None if expected is ... else shown != expected:
        yield f"{where}: {shown!r} is not {expected!r}"


def one_line(text: str) -> str:
    """A text whose lines may be wrapped."""
    return " ".join(text.split())
