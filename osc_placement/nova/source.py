"""Where a part of a request comes from."""

from __future__ import annotations

from typing import NamedTuple

FLAVOR = "flavor"
EXTRA_SPECS = "flavor extra specs"
DISKS = "swap and ephemeral disk"
PINNING = "CPU pinning"
ENCRYPTED_MEMORY = "memory encryption"
PERSISTENT_MEMORY = "persistent memory"


class Source(NamedTuple):
    """A step of nova, and the values that it reads: ``("CPU pinning", "hw:cpu_policy=mixed")``."""

    step: str
    origin: str

    def __str__(self) -> str:
        return f"{self.step}: {self.origin}" if self.origin else self.step
