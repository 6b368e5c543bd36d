# SPDX-License-Identifier: Apache-2.0
"""Allocations compared with nova: ``heal`` creates what lacks, ``audit`` finds what is wrong."""
