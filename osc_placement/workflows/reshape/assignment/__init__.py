"""Deciding which target each allocation of a reshape goes to. Pure, exact and deterministic.

``search.assign`` is the entry point, ``demand`` has its input and its answers. ``item`` models
what is placed, ``strategy`` places it as preferred, ``unique`` finds the consumers that have
a choice, ``unplaceable`` the consumers that do not fit, and ``exhaustive`` proves.
"""
