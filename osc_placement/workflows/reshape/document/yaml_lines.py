"""YAML (and so JSON) as plain data that remembers on which line each part began."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import yaml

from osc_placement import errors

Path = tuple[str | int, ...]

#: So many characters of what is no value are told.
_SHOWN = 40


@dataclasses.dataclass(frozen=True, slots=True)
class Marked:
    """``data`` is plain; ``lines`` is ``{path: line}``, the first line being 1."""

    data: Any
    lines: dict[Path, int]

    def line(self, *path: str | int) -> int:
        """Where the part at ``path`` begins, or what is around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def load(text: str, source: str, faults: errors.InputErrors) -> Marked:
    """Read a text; keys that stand twice are faults, as is a text that is no YAML at all."""
    lines: dict[Path, int] = {}
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = _plain(node, (), lines, source, faults) if node is not None else None
    except yaml.YAMLError as error:
        faults.add(_unreadable(error, source))
        return Marked(None, {})
    except RecursionError:
        faults.add(f"{source}: it is nested too deeply")
        return Marked(None, {})
    return Marked(data, lines)


def _plain(
    node: yaml.Node, path: Path, lines: dict[Path, int], source: str, faults: errors.InputErrors
) -> Any:
    lines[path] = node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        return [
            _plain(item, (*path, position), lines, source, faults)
            for position, item in enumerate(node.value)
        ]
    if not isinstance(node, yaml.MappingNode):
        return _scalar(node, source, faults)
    found: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "?"
        line = key_node.start_mark.line + 1
        if key in found:
            faults.add(f"{source}:{line}: {key!r} stands here a second time")
        found[key] = _plain(value_node, (*path, key), lines, source, faults)
        lines[*path, key] = line
    return found


def _scalar(node: yaml.Node, source: str, faults: errors.InputErrors) -> Any:
    """A number, a text, true, false or null; what only YAML knows (dates, .inf) stays a text."""
    try:
        value = yaml.constructor.SafeConstructor().construct_object(node)
        # JSON can write half a character, which nobody can send.
        node.value.encode()
    except ValueError as error:
        faults.add(
            f"{source}:{node.start_mark.line + 1}: {_cut(node.value)} cannot be read: {error}"
        )
        return None
    if isinstance(value, float):
        if not math.isfinite(value):
            return node.value
        return int(value) if value.is_integer() else value
    return value if value is None or isinstance(value, bool | int | str) else node.value


def _cut(text: str) -> str:
    """As much of a text as a line can bear."""
    return ascii(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def _unreadable(error: yaml.YAMLError, source: str) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    where = f"{source}:{mark.line + 1}" if mark is not None else source
    return f"{where}: this is neither YAML nor JSON: {problem}"
