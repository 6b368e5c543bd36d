# SPDX-License-Identifier: Apache-2.0
"""Which flavors can start, and why the others cannot."""
