# SPDX-License-Identifier: Apache-2.0
"""Reshape: move inventories between the providers of a tree, with their allocations."""
