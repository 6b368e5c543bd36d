# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the HTTP contract tests, for the reference server and openstack-placement."""

from __future__ import annotations

from tests.support.peer.fixtures import first_generation, real_placement, target

__all__ = ["first_generation", "real_placement", "target"]
