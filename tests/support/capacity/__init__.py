# SPDX-License-Identifier: Apache-2.0
"""Small clouds for capacity, and brute force."""
