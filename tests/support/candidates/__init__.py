# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates checked from outside: random clouds, brute force, the real service."""
