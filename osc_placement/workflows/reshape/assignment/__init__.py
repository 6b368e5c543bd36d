"""Deciding which target each allocation of a reshape goes to. Pure, exact and deterministic.

``search.assign`` is the entry point, ``demand`` has its input and its answers, ``exhaustive``
places and proves.
"""
