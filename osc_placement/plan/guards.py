# SPDX-License-Identifier: Apache-2.0
"""The guards that ``--allow`` overrides, by name.

The commands import this for their help texts: it holds only constants, so that the start of a
command does not load the workflows.
"""

from __future__ import annotations

OVER_CAPACITY = "over-capacity"
RESERVED_ABOVE_TOTAL = "reserved-above-total"
NOTHING_LEFT = "nothing-left"
CLASS_IN_USE = "class-in-use"
STANDARD_TRAITS = "standard-traits"
NOVA_OWNED = "nova-owned"
ONE_TIME_USE = "one-time-use"

#: A plan may remove more than a part of what exists.
MANY = "many"

#: The default of this part, in percent.
MAX_PERCENT = 10

#: In a small cloud one host is more than 10 %. So the default allows this many removals, but never
#: more than a half: nothing may empty a small cloud either.
SMALL = 20

#: A guard of a command, not of a plan: an old recording of nova must not remove allocations
#: from a Placement in use.
RECORDED_NOVA = "recorded-nova"

#: A guard of the audit: after a live migration that failed half way, nova's host of a server is a
#: claim until somebody has looked for the guest.
CLAIMED_HOST = "claimed-host"

ALL = (
    OVER_CAPACITY,
    RESERVED_ABOVE_TOTAL,
    NOTHING_LEFT,
    CLASS_IN_USE,
    STANDARD_TRAITS,
    NOVA_OWNED,
    ONE_TIME_USE,
    MANY,
)

#: What a command without the other guards overrides: it writes as upstream's plugin does. Its limit
#: of removals holds on request.
ALL_BUT_DEVICES = tuple(guard for guard in ALL if guard not in (ONE_TIME_USE, MANY))
