# SPDX-License-Identifier: Apache-2.0
"""The names of nova's releases, and what a release brings that a cloud notices. Pure.

``tools/release-tables`` writes ``releases.json`` from the installed releases of nova, and
lab/tests/test_upgrade.py compares it with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

from osc_placement.model import json_text

#: ``{release of nova: its name}``
NAMES: Mapping[int, str] = {
    27: "2023.1",
    28: "2023.2",
    29: "2024.1",
    30: "2024.2",
    31: "2025.1",
    32: "2025.2",
    33: "2026.1",
    34: "2026.2",
}

_ROWS = json_text.parse((resources.files(__package__) / "releases.json").read_text("utf-8"))

#: ``{release: the service version of its nova-compute}``; some releases share one.
COMPUTE_VERSION: Mapping[int, int] = {release: _ROWS[str(release)]["version"] for release in NAMES}
#: ``{release: the least service version of a nova-compute beside which its services start}``
OLDEST_VERSION: Mapping[int, int] = {release: _ROWS[str(release)]["oldest"] for release in NAMES}
#: ``{release: the least os-traits that it needs}``
OS_TRAITS: Mapping[int, str] = {release: _ROWS[str(release)]["os_traits"] for release in NAMES}
#: ``{release: the least QEMU of its libvirt driver}``
QEMU: Mapping[int, str] = {release: _ROWS[str(release)]["qemu"] for release in NAMES}
#: The same of libvirt.
LIBVIRT: Mapping[int, str] = {release: _ROWS[str(release)]["libvirt"] for release in NAMES}

#: ``{trait: the first release whose nova-compute may write it}``, without those of nova 27.
WRITTEN_SINCE: Mapping[str, int] = {
    trait: release for release in NAMES for trait in _ROWS[str(release)]["written"]
}
#: The same of the traits that nova's scheduler may require.
REQUIRED_SINCE: Mapping[str, int] = {
    trait: release for release in NAMES for trait in _ROWS[str(release)]["required"]
}

#: From this release on nova-compute has a provider for each model of memory encryption.
ENCRYPTION_PROVIDERS_SINCE = 32
#: From this release on nova-compute does not start with SEV-ES guests on a host with SEV-SNP.
SNP_SINCE = 34
#: From this release on nova knows one-time-use devices, and requires that Placement has them.
ONE_TIME_USE_SINCE = 32


def parse(text: str) -> int:
    """The number of a release, of its name or number: 34 for "2026.2". Raises ValueError."""
    by_text = {name: number for number, name in NAMES.items()}
    by_text |= {str(number): number for number in NAMES}
    if text not in by_text:
        raise ValueError(f"{text!r} is not a known release of nova: {', '.join(NAMES.values())}")
    return by_text[text]


def title(release: int) -> str:
    """``nova 34 (2026.2)``"""
    return f"nova {release} ({NAMES[release]})"


def new_traits(old: int, new: int, since: Mapping[str, int] = WRITTEN_SINCE) -> frozenset[str]:
    """The traits that nova-compute of the new release may write, and of the old one does not."""
    return frozenset(name for name, release in since.items() if old < release <= new)


def starts(old: int, new: int) -> bool:
    """Whether the services of ``new`` start beside nova-computes of ``old``."""
    return COMPUTE_VERSION[old] >= OLDEST_VERSION[new]


def is_supported(old: int, new: int) -> bool:
    """Whether nova supports the step: one release, or from one ``.1`` to the next."""
    return new - old == 1 or (new - old == 2 and NAMES[old].endswith(".1"))


def way(old: int, new: int) -> int:
    """The newest release that an upgrade to ``new`` can pass through as its first step."""
    return max(to for to in NAMES if old < to <= new and is_supported(old, to) and starts(old, to))
