"""The traits and resource classes that every Placement has: the field's own lists."""

from __future__ import annotations

import os_resource_classes
import os_traits

TRAITS: frozenset[str] = frozenset(os_traits.get_traits())

#: In the order of their numeric ids, which is the order in which Placement lists them.
RESOURCE_CLASSES: tuple[str, ...] = tuple(os_resource_classes.STANDARDS)

SHARING_TRAIT: str = os_traits.MISC_SHARES_VIA_AGGREGATE
