# SPDX-License-Identifier: Apache-2.0
"""The allocation candidate search, pure and lazy.

``search`` is the entry point; ``names`` checks the
names of a query, ``plan`` prepares it, ``forest`` selects trees by the indexes of the state,
``tree`` searches one tree, ``budget`` limits the time, and ``report`` explains why providers and
trees are dropped.
"""
