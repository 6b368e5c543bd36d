# SPDX-License-Identifier: Apache-2.0
"""A page of ``placement report write``, as a program that checks it sees it."""

from __future__ import annotations

import collections
import html.parser
import re

_VOID = {"meta", "link", "br", "wbr", "rect"}
#: Elements whose end HTML lets a page leave out.
_OPEN_END = {"th", "td", "tr"}


class ReportPage(html.parser.HTMLParser):
    """Elements, texts and ids; ``structure`` is every element with its attributes, without texts.

    ``errors``: an end without a start, or an element that never ends.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.structure: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.elements: collections.Counter[str] = collections.Counter()
        self.ids: collections.Counter[str] = collections.Counter()
        self.links: list[str] = []
        self.headings: list[tuple[int, str]] = []
        self.texts: list[str] = []
        self.errors: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.errors += [f"<{tag}> does not end" for tag in self._open]

    @property
    def text(self) -> str:
        """All texts but the style."""
        return " ".join("".join(self.texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.structure.append((tag, tuple(attrs)))
        self.elements[tag] += 1
        if tag not in ("wbr", "bdi"):
            self.texts.append(" ")
        values = dict(attrs)
        self.ids.update([values["id"] or ""] if "id" in values else [])
        self.links += [value for name in ("href", "src") if (value := values.get(name))]
        if re.fullmatch("h[1-6]", tag):
            self.headings.append((int(tag[1]), ""))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open[-1] != tag and self._open[-1] in _OPEN_END:
            self._open.pop()
        if not self._open or self._open.pop() != tag:
            self.errors.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.texts.append(data)
        if self._open and re.fullmatch("h[1-6]|small|bdi", self._open[-1]) and self.headings:
            level, text = self.headings[-1]
            if any(re.fullmatch("h[1-6]", tag) for tag in self._open):
                self.headings[-1] = (level, text + data)
