"""Who uses what, held against nova: healing, auditing, and what both see and know.

``picture`` is what was observed, ``expected`` what a server should have, ``heal`` and
``audit`` decide. Pure but for ``observe`` and ``owner``, which ask, ``healing`` and ``auditing``,
which have them asked, ``premise`` and ``binding``, which are asked when it is written.
"""
