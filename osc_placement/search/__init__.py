# SPDX-License-Identifier: Apache-2.0
"""The exact search: which requests fit together, and where each of them goes."""
