# SPDX-License-Identifier: Apache-2.0
"""Markdown for merge requests: tables and folded parts, with names that cannot become markup.

Names of providers and traits come from a cloud, so anybody who can create one writes into the page.
Every character that Markdown or HTML could read is an HTML entity inside ``<code>``, where no site
makes links or mentions; other control characters and those that turn the direction are escapes.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence

from osc_placement.v1.output import rows

#: ASCII characters that have a meaning somewhere in Markdown, HTML, or the sites that show them.
_MARKUP = frozenset(string.punctuation).difference("-,;/=+%.")

#: Characters of a longer name that are shown.
_LONGEST = 300


def escaped(text: str, longest: int | None = _LONGEST) -> str:
    """A text that Markdown and HTML show as it is, in one line.

    ``a|b`` and ``<b>`` become ``a&#124;b`` and ``&#60;b&#62;``; a line feed is shown as its escape.
    """
    shown = text[:longest] + ("\u2026" if len(text) > len(text[:longest]) else "")
    return "".join(
        f"&#{ord(character)};" if character in _MARKUP else character
        for character in rows.printable(shown)
    )


def code(text: str) -> str:
    """A text as code; nothing for an empty one."""
    return f"<code>{escaped(text)}</code>" if text else ""


def items(named: Iterable[tuple[str, str]]) -> list[str]:
    """A list of ``(name, text)``: whole texts as code, without those that are empty."""
    return [f"* {name}: <code>{escaped(text, None)}</code>" for name, text in named if text]


def lines(texts: Iterable[str]) -> str:
    """Several texts as code in one cell of a table, one under the other."""
    return "<br>".join(map(code, texts))


def table(columns: Sequence[str], cells: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table; cells are Markdown."""
    return [
        f"| {' | '.join(columns)} |",
        f"|{'|'.join('---' for _ in columns)}|",
        *(f"| {' | '.join(row)} |" for row in cells),
        "",
    ]


def folded(summary: str, body: Iterable[str]) -> list[str]:
    """A part that opens with a click; ``summary`` is Markdown without names."""
    return ["<details>", f"<summary>{summary}</summary>", "", *body, "</details>", ""]
