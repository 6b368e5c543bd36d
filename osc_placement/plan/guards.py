"""What a plan leaves alone unless the operator allows it, by the names of ``--allow``.

Imported by the commands for their help: nothing but constants stands here, so that no
``openstack`` command pays for the workflows that it does not run.
"""

from __future__ import annotations

OVER_CAPACITY = "over-capacity"
RESERVED_ABOVE_TOTAL = "reserved-above-total"
CLASS_IN_USE = "class-in-use"
STANDARD_TRAITS = "standard-traits"
NOVA_OWNED = "nova-owned"

#: Not a plan's but a command's: what nova said on another day is no ground for taking from a
#: Placement that is in use.
RECORDED_NOVA = "recorded-nova"

ALL = (OVER_CAPACITY, RESERVED_ABOVE_TOTAL, CLASS_IN_USE, STANDARD_TRAITS, NOVA_OWNED)

#: How many requests are under way at once when nobody says how many.
WORKERS = 8
