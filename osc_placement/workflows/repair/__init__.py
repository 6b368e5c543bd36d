# SPDX-License-Identifier: Apache-2.0
"""Finding and repairing records that differ from nova's."""
