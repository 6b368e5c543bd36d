# SPDX-License-Identifier: Apache-2.0
"""The allocation candidate search, pure and lazy.

``search`` is the entry point and checks the names of a query, ``plans`` prepares it, ``forest``
selects trees by the indexes of the state, ``tree`` searches one tree, ``budget`` limits the time,
and ``report`` explains why providers and trees are dropped.
"""
