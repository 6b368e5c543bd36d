# SPDX-License-Identifier: Apache-2.0
"""Placement's values as frozen dataclasses, and the arithmetic on them.

Standard library only; no input or output. Amounts are integers in the unit of their resource
class (MEMORY_MB in MiB, DISK_GB in GiB).
"""
