# SPDX-License-Identifier: Apache-2.0
"""Placement's rules in pure Python: no HTTP, no SQL, no logging.

``state`` holds indexed records, ``draft`` a set of pending changes to it. One module per resource
has the rules for changing it; ``candidates`` has the allocation candidate search. The reference
server adds HTTP.
"""
