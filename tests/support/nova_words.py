# SPDX-License-Identifier: Apache-2.0
"""Nova's own words about moves: types and statuses of migrations, tasks and states of servers.

They are read from the code of nova 27 to 34, which have the same ones (``lab/move_facts.py``).
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence

FILE = pathlib.Path(__file__).with_name("nova_words.json")


def read() -> Mapping[str, Sequence[str]]:
    """``types``, ``statuses`` and ``over`` of migrations, ``tasks`` and ``states`` of servers."""
    words: Mapping[str, Sequence[str]] = json.loads(FILE.read_text())
    return words
