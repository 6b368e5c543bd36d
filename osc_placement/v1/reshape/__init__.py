# SPDX-License-Identifier: Apache-2.0
"""Commands that move inventory between providers."""
