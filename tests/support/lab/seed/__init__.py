"""Fills the lab: hosts, aggregates, servers in every state, allocations right and wrong.

Run it with the lab's own Python, since it writes nova's database through nova's objects:
``python -m tests.support.lab.seed FOLDER PORT HOSTS SERVERS all|ordinary``. Every UUID is
derived from a name, so that two labs with the same seed are equal. ``seed.json`` in the folder
lists all names and UUIDs.
"""
