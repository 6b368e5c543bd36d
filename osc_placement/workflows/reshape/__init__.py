"""Reshape: inventory moves between providers of a tree, and its allocations move with it.

``document`` reads what is wanted, ``observe`` what there is, ``wanted`` and ``compile``
decide, ``rehearse`` tries it on an embedded server; all but those that observe and
rehearse are pure. ``assignment`` is the search for places, ``recipe`` writes documents.
"""
