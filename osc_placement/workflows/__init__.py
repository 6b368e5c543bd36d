"""What operators do with a cloud: observe it, plan a list of changes, apply them.

``inventory``, ``trait`` and ``aggregate`` are pure: a snapshot and a request in, a ``plan.Plan``
out. ``observe`` and ``selection`` read, ``execute`` writes; ``batch`` puts the three steps
together for a command. ``plan_file``, ``journal`` and ``undo`` make a plan survive on disk.
"""
