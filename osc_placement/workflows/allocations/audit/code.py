"""The codes of the audit's findings. Commands import this module to parse arguments."""

from __future__ import annotations

import enum


class Code(enum.StrEnum):
    """What is wrong. Findings about consumers can be repaired, except ``unknown``."""

    ORPHANED = "orphaned"
    DOUBLED = "doubled"
    MISSING = "missing"
    WRONG_HOST = "wrong-host"
    WRONG_SIZE = "wrong-size"
    WRONG_OWNER = "wrong-owner"
    INCOMPLETE = "incomplete"
    OVER_CAPACITY = "over-capacity"
    STALE_PROVIDER = "stale-provider"
    UNKNOWN = "unknown"
