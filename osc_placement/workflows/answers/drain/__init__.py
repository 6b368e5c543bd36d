# SPDX-License-Identifier: Apache-2.0
"""Emptying hosts: a plan of moves, each proven on the state after the former ones."""
