"""A recipe as a value, and as the YAML text that an operator reviews. Pure."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

_WIDTH = 100
_INDENT = "  "


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """``document`` is the input of ``placement reshape`` without its part ``assign``.

    ``head`` are paragraphs of comment before it; a line that begins with spaces is a command
    and is not wrapped. ``assign`` is ``{consumer: target, or targets by class}``; ``undecided`` are
    the other consumers; ``comments`` has a comment per consumer.
    """

    head: tuple[str, ...]
    document: Mapping[str, Any]
    assign: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    undecided: tuple[str, ...] = ()
    comments: Mapping[str, str] = dataclasses.field(default_factory=dict)


class _Dumper(yaml.SafeDumper):
    """Writes repeated values in full."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def write(recipe: Recipe) -> str:
    """The text of a recipe: comments, moves, and assignments."""
    return "\n".join([*_head(recipe.head), *_sections(recipe.document), *_assigned(recipe), ""])


def plain(text: str) -> str:
    """A name on one line, for a comment."""
    return " ".join(text.split())


def _head(paragraphs: tuple[str, ...]) -> Iterator[str]:
    for paragraph in paragraphs:
        for line in paragraph.splitlines():
            wrapped = [line] if line.startswith(" ") else _wrapped(line)
            yield from (f"# {part}".rstrip() for part in wrapped or [""])
        yield "#"


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, _WIDTH - 2, break_on_hyphens=False, break_long_words=False)


def _sections(document: Mapping[str, Any]) -> Iterator[str]:
    for key, value in document.items():
        yield _yaml({key: value})


def _assigned(recipe: Recipe) -> Iterator[str]:
    if not (recipe.assign or recipe.undecided):
        return
    # A mapping with comments alone would be null.
    yield "assign:" if recipe.assign else "# assign:"
    mark = "  # " if recipe.assign else "#   "
    for consumer, target in recipe.assign.items():
        yield textwrap.indent(_yaml({consumer: target}), _INDENT) + _comment(recipe, consumer)
    for consumer in recipe.undecided:
        yield f"{mark}{consumer}: ?" + _comment(recipe, consumer)


def _comment(recipe: Recipe, consumer: str) -> str:
    comment = plain(recipe.comments.get(consumer, ""))
    return f"  # {comment}" if comment else ""


def _yaml(data: Mapping[str, Any]) -> str:
    text: str = yaml.dump(
        data,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=None if any(map(_is_nested, data.values())) else False,
        width=_WIDTH,
        allow_unicode=True,
    )
    return text.rstrip("\n")


def _is_nested(value: Any) -> bool:
    return isinstance(value, list | dict)
