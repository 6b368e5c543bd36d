# SPDX-License-Identifier: Apache-2.0
"""Clouds and queries that make requests expensive."""

from __future__ import annotations

from typing import Any

from benchmarks import cloud

DEVICES = 100


def devices(*amounts: int, policy: str = "none") -> str:
    groups = (f"&resources{n}=PCI_DEVICE:{amount}" for n, amount in enumerate(amounts, 1))
    return f"/allocation_candidates?group_policy={policy}{''.join(groups)}"


def packing() -> tuple[dict[str, Any], str]:
    """A cloud of equal devices and a query that no search decides in a short time."""
    amounts = [30 + 69 * n * n % 70 for n in range(3 * DEVICES)]
    total = sum(amounts) // DEVICES + 1
    return cloud.wide_host(DEVICES, total), devices(*amounts)
