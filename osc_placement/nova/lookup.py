# SPDX-License-Identifier: Apache-2.0
"""Looking up nova's host aggregates by name, id or UUID: the only place that does it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from osc_placement import errors
from osc_placement.nova import values

_NONE_HAS = "no nova host aggregate has"


def find_host_aggregates(
    known: Sequence[values.HostAggregate], texts: Iterable[str], input_errors: errors.InputErrors
) -> dict[str, values.HostAggregate]:
    """``{text: host aggregate}``; adds an error for each text that none or several have."""
    found = {}
    for text in dict.fromkeys(texts):
        matching = [item for item in known if item.is_called(text)]
        if len(matching) == 1:
            found[text] = matching[0]
            continue
        count = f"{len(matching)} nova host aggregates have" if matching else _NONE_HAS
        input_errors.add(f"{count} the name or id {text!r}: 'openstack aggregate list' shows all")
    return found
