"""A finding about a provider, with its repair. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from osc_placement.workflows import finding


@dataclasses.dataclass(frozen=True, slots=True)
class Finding(finding.Finding):
    """``code`` is one of ``checks.CODES``; ``repair`` is ``{trait: whether to have it}``."""

    repair: Mapping[str, bool] = dataclasses.field(default_factory=dict)

    @property
    def is_repairable(self) -> bool:
        return bool(self.repair)
