# SPDX-License-Identifier: Apache-2.0
"""The microversions of the project as texts: no test has the number of the last one."""

from __future__ import annotations

from osc_placement import microversion

MAXIMUM = str(microversion.MAXIMUM)

#: One that does not exist yet.
NEXT = f"1.{microversion.MAXIMUM.minor + 1}"

#: As errors print it.
RANGE = f"{microversion.MINIMUM} to {microversion.MAXIMUM}"
