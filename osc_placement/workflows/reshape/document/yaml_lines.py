"""Reading YAML (and so JSON) as plain data with the line of each part."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import yaml

from osc_placement import errors

#: The keys and positions that lead to a part.
Path = tuple[str | int, ...]

#: The nodes that aliases may add to a document: a few nested aliases stand for billions.
MAX_ADDED = 10_000

#: The characters of an invalid value that a message shows.
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


def load(text: str, source: str, problems: errors.InputErrors) -> Data:
    """Read a text. Invalid YAML, repeated keys and invalid values are added to ``problems``.

    So are aliases that add more than 10,000 nodes; they are not expanded.
    """
    loader = _Loader(source, problems)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None and _added(node) > MAX_ADDED:
            problems.add(
                f"{source}: its aliases add more than {MAX_ADDED:,} nodes: write fewer aliases"
            )
            return Data(None, {})
        data = loader.plain(node, ()) if node is not None else None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source}:{mark.line + 1}" if mark is not None else source
        problem = getattr(error, "problem", None) or str(error)
        problems.add(f"{where}: neither YAML nor JSON: {problem}")
        return Data(None, {})
    except RecursionError:
        problems.add(f"{source}: nested too deeply")
        return Data(None, {})
    return Data(data, loader.lines)


def _added(root: yaml.Node) -> int:
    """The nodes that aliases add to those in the text, without expanding them."""
    sizes: dict[yaml.Node, int] = {}

    def size(node: yaml.Node) -> int:
        if node not in sizes:
            # An alias within its own anchor has no end.
            sizes[node] = MAX_ADDED + 2
            sizes[node] = 1 + sum(map(size, _children(node)))
        return sizes[node]

    return size(root) - len(sizes)


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        yield from node.value
    elif isinstance(node, yaml.MappingNode):
        for pair in node.value:
            yield from pair


class _Loader:
    def __init__(self, source: str, problems: errors.InputErrors) -> None:
        self.lines: dict[Path, int] = {}
        self._source, self._problems = source, problems

    def plain(self, node: yaml.Node, path: Path) -> Any:
        self.lines[path] = node.start_mark.line + 1
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(item, (*path, at)) for at, item in enumerate(node.value)]
        if not isinstance(node, yaml.MappingNode):
            return self._scalar(node)
        found: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "?"
            line = key_node.start_mark.line + 1
            if key in found:
                self._problems.add(f"{self._source}:{line}: the key {key!r} is repeated")
            found[key] = self.plain(value_node, (*path, key))
            self.lines[*path, key] = line
        return found

    def _scalar(self, node: yaml.Node) -> Any:
        """A number, text, true, false or null. Other YAML values (dates, .inf) stay text."""
        try:
            value = yaml.constructor.SafeConstructor().construct_object(node)
            # JSON can write half of a surrogate pair, which no request can contain.
            node.value.encode()
        except ValueError as error:
            text = node.value if len(node.value) <= _SHOWN else f"{node.value[:_SHOWN]}..."
            where = f"{self._source}:{node.start_mark.line + 1}"
            self._problems.add(f"{where}: {text!a} cannot be read: {error}")
            return None
        if isinstance(value, float):
            if not math.isfinite(value):
                return node.value
            return int(value) if value.is_integer() else value
        return value if value is None or isinstance(value, bool | int | str) else node.value
