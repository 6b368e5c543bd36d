# SPDX-License-Identifier: Apache-2.0
"""The traits and resource classes that every Placement has."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import os_resource_classes

#: In order of their numeric ids, as Placement lists them.
RESOURCE_CLASSES: tuple[str, ...] = tuple(os_resource_classes.STANDARDS)

_CLASS_IDS = {name: number for number, name in enumerate(RESOURCE_CLASSES)}

SHARING_TRAIT = "MISC_SHARES_VIA_AGGREGATE"


@functools.cache
def traits() -> frozenset[str]:
    """The standard traits; os-traits is imported at the first call because that is slow."""
    import os_traits

    return frozenset(os_traits.get_traits())


def classes_in_order(names: Iterable[str]) -> list[str]:
    """Resource classes as Placement orders them: the standard ones by id, then the custom ones."""
    return sorted(names, key=lambda name: (_CLASS_IDS.get(name, len(_CLASS_IDS)), name))


@functools.lru_cache(maxsize=4096)
def in_order(names: frozenset[str]) -> tuple[str, ...]:
    """Traits as Placement lists them: the standard ones first."""
    return tuple(sorted(names, key=lambda name: (name not in traits(), name)))
