"""Who uses what, held against nova: healing, auditing, and what both see and know.

``picture`` is what was observed, ``expected`` what a server should have, ``heal`` and
``audit`` decide. Pure but for ``observe``, ``owner`` and ``port``, which ask.
"""
