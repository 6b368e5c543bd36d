# SPDX-License-Identifier: Apache-2.0
"""What the commands share: base classes, options, plans, services."""
