# SPDX-License-Identifier: Apache-2.0
"""The use of hosts before and after a plan, as bars in an SVG picture.

It is as wide as its page, readable from 390 pixels on, and dark where the reader wants it.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.sax import saxutils

from osc_placement import errors

if TYPE_CHECKING:
    from osc_placement.workflows.moving import balance_plan

_ROW, _LEFT, _LENGTH = 34, 120, 170
#: Characters of a host's name.
_MOST_OF_A_NAME = 17
_STYLE = """\
<style>
  svg { background: #fff; font-family: sans-serif; font-size: 12px; }
  text { fill: #1a1a1a; } .track { fill: #e4e4e4; } .before { fill: #c2571a; }
  .after { fill: #1f6fb2; }
  @media (prefers-color-scheme: dark) {
    svg { background: #16181c; } text { fill: #e8e8e8; } .track { fill: #34373d; }
    .before { fill: #f0a35e; } .after { fill: #6cb4f0; }
  }
</style>"""


def write(path: pathlib.Path, planned: balance_plan.BalancePlan) -> None:
    """Write the picture. Errors: PlacementError for an existing file of another kind."""
    from osc_placement.plan import file

    if file.is_of_another_kind(path, b"<svg"):
        raise errors.PlacementError(
            f"{path} exists and is not a picture. Nothing was written. Give another path"
        )
    file.replace(path, (f"{line}\n" for line in lines(planned)))


def lines(planned: balance_plan.BalancePlan) -> Iterator[str]:
    """The lines of the picture: two bars for each host, the part that is used of each."""
    rows = [row for part in planned.parts for row in ("", *part.before)]
    height = _ROW * len(rows) + 12
    yield '<svg xmlns="http://www.w3.org/2000/svg" role="img" width="100%"'
    yield f' style="max-width: 640px" viewBox="0 0 390 {height}">'
    yield "<title>The use of hosts before and after the moves</title>"
    yield _STYLE
    top = 0
    for part in planned.parts:
        yield _text(8, top + 22, f"{part.name} in use: above before, below after")
        top += _ROW
        for name, before in part.before.items():
            shown = name if len(name) <= _MOST_OF_A_NAME else f"{name[: _MOST_OF_A_NAME - 1]}…"
            after = part.after[name]
            yield _text(8, top + 18, shown)
            yield f'<rect class="track" x="{_LEFT}" y="{top + 2}" width="{_LENGTH}" height="24"/>'
            for kind, share, down in (("before", before.share, 3), ("after", after.share, 15)):
                width = round(_LENGTH * min(share, 1.0), 1)
                yield (
                    f'<rect class="{kind}" x="{_LEFT}" y="{top + down}" width="{width}"'
                    ' height="10"/>'
                )
            yield _text(_LEFT + _LENGTH + 8, top + 18, f"{before.share:.0%} → {after.share:.0%}")
            top += _ROW
    yield "</svg>"


def _text(left: int, top: int, text: str) -> str:
    safe = "".join(letter if letter.isprintable() else "?" for letter in text)
    return f'<text x="{left}" y="{top}">{saxutils.escape(safe)}</text>'
