# SPDX-License-Identifier: Apache-2.0
"""The plan engine: changes as values, plan files, and one way to apply them.

It imports no workflow. ``kinds`` has one module per kind of change.
"""
