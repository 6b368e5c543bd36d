"""Reshape documents: reading and validating the YAML files of an operator."""
