# SPDX-License-Identifier: Apache-2.0
"""The names of nova's releases, and what a release brings that a cloud notices. Pure.

lab/tests/test_upgrade.py compares the tables with the installed releases of nova.
"""

from __future__ import annotations

from collections.abc import Mapping

from osc_placement.scheduling import traits

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

#: ``{trait that nova requires: the first release whose nova-compute writes it}``
WRITTEN_SINCE: Mapping[str, int] = {
    "COMPUTE_ADDRESS_SPACE_EMULATED": 28,
    "COMPUTE_ADDRESS_SPACE_PASSTHROUGH": 28,
    "COMPUTE_NET_VIRTIO_PACKED": 29,
    "COMPUTE_SECURITY_STATELESS_FIRMWARE": 30,
    "COMPUTE_SECURITY_TPM_CRB": 30,
    "COMPUTE_SECURITY_TPM_TIS": 30,
    "COMPUTE_SOUND_MODEL_VIRTIO": 32,
    "HW_CPU_X86_AMD_SEV_ES": 32,
    "COMPUTE_SECURITY_TPM_SECRET_SECURITY_DEPLOYMENT": 33,
    "COMPUTE_SECURITY_TPM_SECRET_SECURITY_HOST": 33,
    "COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER": 33,
    "HW_CPU_X86_AMD_SEV_SNP": 34,
    "HW_CPU_X86_INTEL_TDX": 34,
    traits.OWNER: 34,
}

#: ``{release: the oldest release of nova-compute beside which its other services start}``
OLDEST_COMPUTE: Mapping[int, int] = {28: 27, 29: 27, 30: 29, 31: 29, 32: 31, 33: 31, 34: 33}

#: From this release on nova-compute has a provider for each model of memory encryption.
ENCRYPTION_PROVIDERS_SINCE = 32
#: From this release on nova-compute does not start with SEV-ES guests on a host with SEV-SNP.
SNP_SINCE = 34
#: From this release on nova knows one-time-use devices, and requires that Placement has them.
ONE_TIME_USE_SINCE = 32
#: From this release on Placement has ``[workarounds]optimize_for_wide_provider_trees``.
WIDE_TREES_SINCE = 32


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


def new_traits(old: int, new: int) -> frozenset[str]:
    """The traits that nova-compute of the new release writes, and of the old one does not."""
    return frozenset(name for name, since in WRITTEN_SINCE.items() if old < since <= new)


def way(old: int, new: int) -> int:
    """The newest release that an upgrade to ``new`` can pass through as its first step."""
    reachable = [to for to, oldest in OLDEST_COMPUTE.items() if oldest <= old < to <= new]
    return max(reachable)
