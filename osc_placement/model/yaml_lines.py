# SPDX-License-Identifier: Apache-2.0
"""Reading YAML (and so JSON) as plain data with the line of each part: the only reader of YAML.

Aliases and merge keys are refused: a few nested ones stand for billions of nodes.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import yaml

from osc_placement import errors

#: The keys and positions that lead to a part.
Path = tuple[str | int, ...]

#: The errors of PyYAML for a value that its tag does not fit, such as ``!!int ""``.
_INVALID_VALUE = (ValueError, LookupError, TypeError, AttributeError, OverflowError)

_MERGE = "tag:yaml.org,2002:merge"

_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

#: The characters of an invalid value that a message shows; no number is longer.
_SHOWN = 40


@dataclasses.dataclass(frozen=True, slots=True)
class Data:
    """Plain ``data``, and ``lines``: ``{path: line}``, counted from 1."""

    data: Any
    lines: dict[Path, int]

    def line(self, *path: str | int) -> int:
        """The line where the part at ``path`` begins, or the part that contains it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def load(text: str, source: str, *, repeated_keys: bool = False) -> Data:
    """Read a text; the last of repeated keys is used with ``repeated_keys``.

    Errors: InvalidInput with all errors and their lines: for invalid YAML, aliases, merge keys,
    repeated keys and invalid values.
    """
    loader = _Loader(source, repeated_keys=repeated_keys)
    try:
        node = yaml.compose(text, Loader=_Composer)
        data = loader.plain(node, ()) if node is not None else None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source}:{mark.line + 1}" if mark is not None else source
        problem = getattr(error, "problem", None) or str(error)
        reason = f"{where}: neither YAML nor JSON: {problem}"
        if isinstance(error, _AliasError):
            reason = f"{where}: {problem}"
        raise errors.InvalidInput([*loader.reasons, reason]) from error
    except RecursionError as error:
        raise errors.InvalidInput([*loader.reasons, f"{source}: nested too deeply"]) from error
    errors.InputErrors(loader.reasons).check()
    return Data(data, loader.lines)


class _AliasError(yaml.composer.ComposerError):
    """An alias: valid YAML, but refused."""


class _Composer(yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """The next node. Errors: _AliasError."""
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            problem = f"the alias *{event.anchor} is not supported: write its value there"
            raise _AliasError(problem=problem, problem_mark=event.start_mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        return node


class _Loader:
    def __init__(self, source: str, *, repeated_keys: bool) -> None:
        self.lines: dict[Path, int] = {}
        self.reasons: list[str] = []
        self._source, self._repeated_keys = source, repeated_keys

    def plain(self, node: yaml.Node, path: Path) -> Any:
        self.lines[path] = node.start_mark.line + 1
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(item, (*path, at)) for at, item in enumerate(node.value)]
        if not isinstance(node, yaml.MappingNode):
            return self._scalar(node)
        mapping: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == _MERGE:
                self._refuse(key_node, "merge keys (<<) are not supported: write the keys there")
                continue
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "?"
            if key in mapping and not self._repeated_keys:
                self._refuse(key_node, f"the key {key!r} is repeated")
            mapping[key] = self.plain(value_node, (*path, key))
            self.lines[*path, key] = line
        return mapping

    def _scalar(self, node: yaml.Node) -> Any:
        """A number, text, true, false or null. Other YAML values (dates, .inf) stay text."""
        if node.tag in _NUMBERS and len(node.value) > _SHOWN:
            # PyYAML takes minutes for a long one.
            number = f"{node.value[:_SHOWN]!a}..."
            self._refuse(node, f"the number {number} is longer than {_SHOWN} characters")
            return None
        try:
            value = yaml.constructor.SafeConstructor().construct_object(node)
            # JSON can write half of a surrogate pair, which no request can contain.
            node.value.encode()
        except _INVALID_VALUE as error:
            text = node.value if len(node.value) <= _SHOWN else f"{node.value[:_SHOWN]}..."
            self._refuse(node, f"{text!a} cannot be read: {error}")
            return None
        if isinstance(value, float):
            if not math.isfinite(value):
                return node.value
            return int(value) if value.is_integer() else value
        return value if value is None or isinstance(value, bool | int | str) else node.value

    def _refuse(self, node: yaml.Node, reason: str) -> None:
        self.reasons.append(f"{self._source}:{node.start_mark.line + 1}: {reason}")
