# SPDX-License-Identifier: Apache-2.0
"""The stores of the state: memory or an SQLite file.

``repository`` combines a state with its store; only it changes them.
"""
