"""Placement's rules in pure Python: no HTTP, no SQL, no logging.

``state`` holds indexed records, ``draft`` is a set of pending changes over it, a module
per resource holds the rules for changing it, ``candidate`` searches. The reference
server puts HTTP around this; workflows ask it where they must know Placement's rules.
"""
