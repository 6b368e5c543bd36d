# SPDX-License-Identifier: Apache-2.0
"""Commands for plans: apply, list, show, undo."""
