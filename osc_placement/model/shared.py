# SPDX-License-Identifier: Apache-2.0
"""One object for equal values: many servers have a host, an owner, a flavor in common.

The values must not be changed.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Hashable, Mapping
from typing import Any, TypeVar

V = TypeVar("V", bound=Hashable)

#: How many mappings are remembered; more than the flavors of a cloud.
MOST_MAPPINGS = 10_000


def intern_text(value: Any) -> Any:
    """The same string for equal strings; another value, such as None, is returned unchanged."""
    return sys.intern(value) if isinstance(value, str) else value


def intern_mapping(value: Mapping[str, V]) -> Mapping[str, V]:
    """The same mapping for mappings with equal entries in the same order."""
    return _mapping(*value.items())


@functools.lru_cache(MOST_MAPPINGS)
def _mapping(*items: tuple[str, V]) -> Mapping[str, V]:
    return dict(items)
