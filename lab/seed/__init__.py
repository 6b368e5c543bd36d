# SPDX-License-Identifier: Apache-2.0
"""Fill the lab with hosts, aggregates, servers in every state, correct and wrong allocations.

Run this with the lab's Python, because it uses nova's objects to write nova's database:
``python -m lab.seed FOLDER PORT HOSTS SERVERS all|ordinary``. Every UUID is
derived from a name, so that two labs with the same seed are equal. ``seed.json`` in the folder
lists all names and UUIDs.
"""
