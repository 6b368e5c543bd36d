# SPDX-License-Identifier: Apache-2.0
"""Placement's API microversions, and the features that each one added.

``FEATURES`` is the only table of microversions; commands, client and reference server use it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_FORM = re.compile(r"(\d+)\.(\d+)")


class Microversion(NamedTuple):
    """One microversion of the Placement API; ordered as ``1.9 < 1.10``."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Microversion:
        """Parse ``"1.39"``. Raises ValueError for any other form."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise ValueError(
                f"{text!r} is not a microversion of the form MAJOR.MINOR, such as 1.39"
            )
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


MINIMUM = Microversion(1, 0)
MAXIMUM = Microversion(1, 39)


def supported(version: str | Microversion) -> Microversion:
    """A microversion from MINIMUM to MAXIMUM. Raises ValueError for anything else."""
    if not isinstance(version, str | Microversion):
        problem = f"{version!r} is not a microversion: give a text, such as '1.39'"
        raise ValueError(problem)  # noqa: TRY004
    parsed = Microversion.parse(version) if isinstance(version, str) else version
    if not MINIMUM <= parsed <= MAXIMUM:
        raise ValueError(f"microversion {parsed} is not one of {MINIMUM} to {MAXIMUM}")
    return parsed


#: The microversion of upstream's 31 commands without a pinned version: it defines their
#: columns, required options and results.
UNPINNED = Microversion(1, 29)

#: Up to this version a write of allocations keeps the consumer's type; later versions require
#: a type and refuse ``unknown``.
TYPE_STAYS = Microversion(1, 37)

FEATURES: dict[str, Microversion] = {
    name: Microversion(1, minor)
    for name, minor in {
        "provider aggregates": 1,
        "resource classes": 2,
        "provider member_of": 3,
        "provider resources": 4,
        "inventories delete": 5,
        "traits": 6,
        "resource class idempotent put": 7,
        "allocation project and user": 8,
        "usages by project": 9,
        "allocation candidates": 10,
        "provider allocations link": 11,
        "allocation dict form": 12,
        "allocations of many consumers": 13,
        "nested providers": 14,
        "last-modified": 15,
        "candidate limit": 16,
        "candidate required traits": 17,
        "provider required traits": 18,
        "aggregate generation": 19,
        "provider create body": 20,
        "candidate member_of": 21,
        "forbidden traits": 22,
        "error codes": 23,
        "member_of repeated": 24,
        "granular groups": 25,
        "fully reserved inventory": 26,
        "candidate whole summaries": 27,
        "consumer generation": 28,
        "nested candidates": 29,
        "reshaper": 30,
        "candidate in_tree": 31,
        "forbidden aggregates": 32,
        "string suffixes": 33,
        "candidate mappings": 34,
        "candidate root_required": 35,
        "candidate same_subtree": 36,
        "re-parenting": 37,
        "consumer types": 38,
        "any traits": 39,
    }.items()
}


def supports(version: Microversion, feature: str) -> bool:
    """Whether ``feature`` (a key of FEATURES) exists at ``version``."""
    return version >= FEATURES[feature]


def negotiate(server_minimum: Microversion, server_maximum: Microversion) -> Microversion:
    """The highest microversion of client and server. Raises ValueError without one."""
    highest = min(MAXIMUM, server_maximum)
    if highest < max(MINIMUM, server_minimum):
        raise ValueError(
            f"the server supports API versions {server_minimum} to {server_maximum},"
            f" this client {MINIMUM} to {MAXIMUM}: none in common"
        )
    return highest
