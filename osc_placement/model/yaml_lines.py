# SPDX-License-Identifier: Apache-2.0
"""Reading YAML (and so JSON) as plain data with the line of each part: the only reader of YAML.

PyYAML's own loaders take minutes for a few hundred bytes of nested aliases or merge keys, and for
long numbers in base 60.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

from osc_placement import errors

#: The keys and positions that lead to a part.
Path = tuple[str | int, ...]

#: The nodes that aliases may add to a document: a few nested aliases stand for billions.
MAX_ADDED = 10_000

#: The characters of a number or a date; a longer one takes quadratic time.
MAX_NUMBER = 400

#: Found before PyYAML, which takes a second for a number of 900 KB only to read it.
_LONG_NUMBER = re.compile(
    rf"(?<![0-9_:.])[0-9][0-9_:.]{{{MAX_NUMBER},}}|0x[0-9a-fA-F_]{{{MAX_NUMBER},}}"
)

#: The levels of lists and mappings in brackets.
MAX_LEVELS = 100

#: The errors of PyYAML for a value that its tag does not fit, such as ``!!int ""``.
_INVALID_VALUE = (ValueError, LookupError, TypeError, AttributeError, OverflowError)

_MERGE = "tag:yaml.org,2002:merge"
_TEXT = frozenset({"tag:yaml.org,2002:str", "tag:yaml.org,2002:binary"})

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


def load(text: str, source: str, *, repeated_keys: bool = False) -> Data:
    """Read a text; the last of repeated keys is used with ``repeated_keys``.

    Errors: InvalidInput with all errors and their lines: for invalid YAML, repeated keys and
    invalid values; for numbers of more than 400 characters; and for aliases that add more than
    10,000 nodes, which are not expanded.
    """
    loader = _Loader(source, repeated_keys=repeated_keys)
    if long := _LONG_NUMBER.search(text):
        line = text.count("\n", 0, long.start()) + 1
        raise errors.InvalidInput(
            [f"{source}:{line}: a number has more than {MAX_NUMBER} characters"]
        )
    try:
        node = yaml.compose(text, Loader=_Composer)
        if node is not None and _added(node) > MAX_ADDED:
            raise errors.InvalidInput(
                [f"{source}: its aliases add more than {MAX_ADDED:,} nodes: write fewer aliases"]
            )
        data = loader.plain(node, ()) if node is not None else None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source}:{mark.line + 1}" if mark is not None else source
        problem = getattr(error, "problem", None) or str(error)
        reason = f"{where}: neither YAML nor JSON: {problem}"
        raise errors.InvalidInput([*loader.reasons, reason]) from error
    except RecursionError as error:
        raise errors.InvalidInput([*loader.reasons, f"{source}: nested too deeply"]) from error
    errors.InputErrors(loader.reasons).check()
    return Data(data, loader.lines)


def _added(root: yaml.Node) -> int:
    """The nodes that aliases add to those in the text, without expanding them."""
    sizes: dict[yaml.Node, int] = {}
    # Nested aliases stand for numbers with thousands of digits.
    limit = 1 << 62

    def size(node: yaml.Node) -> int:
        if node not in sizes:
            # An alias within its own anchor has no end.
            sizes[node] = MAX_ADDED + 2
            sizes[node] = min(1 + sum(map(size, _children(node))), limit)
        return sizes[node]

    return size(root) - len(sizes)


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        yield from node.value
    elif isinstance(node, yaml.MappingNode):
        for pair in node.value:
            yield from pair


class _Composer(yaml.SafeLoader):
    """PyYAML's loader; it reads ahead over all open lists, which takes quadratic time."""

    def fetch_flow_collection_start(self, token_class: Any) -> None:
        """Begin a list or a mapping in brackets. Errors: RecursionError."""
        if self.flow_level >= MAX_LEVELS:
            raise RecursionError
        super().fetch_flow_collection_start(token_class)


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
            if key_node.tag == _MERGE:
                self._merge(mapping, value_node, path)
        own: set[str] = set()
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                continue
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "?"
            line = key_node.start_mark.line + 1
            if key in own and not self._repeated_keys:
                self.reasons.append(f"{self._source}:{line}: the key {key!r} is repeated")
            own.add(key)
            mapping[key] = self.plain(value_node, (*path, key))
            self.lines[*path, key] = line
        return mapping

    def _merge(self, mapping: dict[Any, Any], node: yaml.Node, path: Path) -> None:
        """Add the keys of the mappings of a merge key; those of the first have precedence."""
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for item in reversed(nodes):
            if isinstance(item, yaml.MappingNode):
                mapping |= self.plain(item, path)
            else:
                where = f"{self._source}:{item.start_mark.line + 1}"
                self.reasons.append(f"{where}: a merge key (<<) needs a mapping")

    def _scalar(self, node: yaml.Node) -> Any:
        """A number, text, true, false or null. Other YAML values (dates, .inf) stay text."""
        try:
            if node.tag not in _TEXT and len(node.value) > MAX_NUMBER:
                raise ValueError(f"it has more than {MAX_NUMBER} characters")
            value = yaml.constructor.SafeConstructor().construct_object(node)
            # JSON can write half of a surrogate pair, which no request can contain.
            node.value.encode()
        except _INVALID_VALUE as error:
            text = node.value if len(node.value) <= _SHOWN else f"{node.value[:_SHOWN]}..."
            where = f"{self._source}:{node.start_mark.line + 1}"
            self.reasons.append(f"{where}: {text!a} cannot be read: {error}")
            return None
        if isinstance(value, float):
            if not math.isfinite(value):
                return node.value
            return int(value) if value.is_integer() else value
        return value if value is None or isinstance(value, bool | int | str) else node.value
