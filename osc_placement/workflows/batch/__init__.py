# SPDX-License-Identifier: Apache-2.0
"""The same change on many providers."""
