"""The allocation candidate search, pure and lazy.

``search`` is the way in; ``plan`` prepares a query, ``forest`` picks trees by the indexes
of the state, ``tree`` fills one, ``report`` tells why something was dropped, ``summary``
says what stands beside the answers.
"""
