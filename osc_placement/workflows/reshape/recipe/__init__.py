"""Recipes: documents of moves for ``placement reshape``, written from the state of a cloud.

``recipe`` has what they share: it reads Placement and nova, and writes a recipe as YAML with
comments, for review by the operator. Each recipe is a pure function that returns a ``Recipe``.
"""
