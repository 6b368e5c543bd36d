"""Recipes: documents of moves for ``placement reshape``, written from what a cloud tells.

``read`` asks Placement and nova; ``vgpu``, ``pcpu`` and ``replace_host`` decide, each a pure
function from what was read to a ``paper.Recipe``; ``paper`` writes it as YAML with comments,
for an operator to review.
"""
