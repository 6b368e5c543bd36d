# SPDX-License-Identifier: Apache-2.0
"""The commands of ``openstack``: one module per noun.

A command parses its arguments, calls one workflow or a few client methods, and returns columns
and rows. OpenStackClient loads every command of every plugin for every command line: import
workflows inside methods.
"""
