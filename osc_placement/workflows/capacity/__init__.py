# SPDX-License-Identifier: Apache-2.0
"""How many requests fit."""
