# SPDX-License-Identifier: Apache-2.0
"""One module per kind of change: its state, and how it is read, written and described."""
