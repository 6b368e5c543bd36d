# SPDX-License-Identifier: Apache-2.0
"""The whole cloud at one look: health, metrics, report, the impact of a plan."""
