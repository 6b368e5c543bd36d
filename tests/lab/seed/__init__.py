"""Fills the lab: hosts, aggregates, servers in every state, allocations right and wrong.

Run by the lab's own Python, since it writes nova's database through nova's objects:
``python -m tests.lab.seed FOLDER PORT HOSTS SERVERS all|ordinary``. Every uuid is derived from a
name, so that two labs that were seeded alike are alike. ``seed.json`` in the folder names them all.
"""
