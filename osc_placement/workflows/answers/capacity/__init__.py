# SPDX-License-Identifier: Apache-2.0
"""How many requests fit, and whether the servers of some hosts fit on the others."""
