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
    """``document`` is what ``placement reshape`` reads, but for its part ``assign``.

    ``head`` are paragraphs of comment before it; one that begins with spaces is a command
    and is not wrapped. ``assign`` is ``{consumer: target, or targets by class}``, ``open`` are the
    consumers for which nothing decides; ``remarks`` is what is known of either, for comments.
    """

    head: tuple[str, ...]
    document: Mapping[str, Any]
    assign: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    open: tuple[str, ...] = ()
    remarks: Mapping[str, str] = dataclasses.field(default_factory=dict)


class _Dumper(yaml.SafeDumper):
    """Writes what stands twice twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def write(recipe: Recipe) -> str:
    """The text of a recipe: comments, the moves, and who goes where."""
    return "\n".join([*_head(recipe.head), *_sections(recipe.document), *_assigned(recipe), ""])


def plain(text: str) -> str:
    """A name as it may stand in a comment: on one line, whatever it holds."""
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
    if not (recipe.assign or recipe.open):
        return
    # A mapping of nothing but comments would be none.
    yield "assign:" if recipe.assign else "# assign:"
    mark = "  # " if recipe.assign else "#   "
    for consumer, target in recipe.assign.items():
        yield textwrap.indent(_yaml({consumer: target}), _INDENT) + _remark(recipe, consumer)
    for consumer in recipe.open:
        yield f"{mark}{consumer}: ?" + _remark(recipe, consumer)


def _remark(recipe: Recipe, consumer: str) -> str:
    told = plain(recipe.remarks.get(consumer, ""))
    return f"  # {told}" if told else ""


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
