"""Recipes: documents of moves for ``placement reshape``, written from the state of a cloud.

``read`` reads Placement and nova; ``vgpu``, ``pcpu`` and ``replace_host`` decide, each as a pure
function that returns a ``yaml_writer.Recipe``; ``yaml_writer`` writes it as YAML with comments, for
review by the operator.
"""
