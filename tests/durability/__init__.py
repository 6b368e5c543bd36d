# SPDX-License-Identifier: Apache-2.0
"""Servers that are killed during writes, and the state of their files."""
