# SPDX-License-Identifier: Apache-2.0
"""What nova-compute sets back of the changes of an explanation. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from osc_placement.workflows.answers.explain.changes import SmallestChange

#: Who sets a change back, by its kind; nova-compute writes what it knows of its own providers.
_SET_BACK: Mapping[str, str] = {
    "raise allocation_ratio": "a ratio that nova.conf sets: change it there",
    "raise total": "a total: it lasts only on a provider that nova-compute does not own",
    "raise reserved": "a reserved amount that nova.conf sets: change it there",
    "amend": "min_unit, max_unit and step_size of its own providers",
    "add_trait": "standard traits of the driver, about 5 minutes later",
    "remove_trait": "standard traits of the driver, about 5 minutes later",
}


def notes(found: Iterable[SmallestChange]) -> list[str]:
    """What nova-compute sets back of the changes: ``a total``."""
    steps = [step for change in found for step in change.steps]
    kinds = dict.fromkeys(
        _SET_BACK.get(step.kind, "")
        for step in steps
        if "trait" not in step.action or not step.name.startswith("CUSTOM_")
    )
    return [f"nova-compute sets back {text}" for text in kinds if text]
