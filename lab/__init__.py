# SPDX-License-Identifier: Apache-2.0
"""A small OpenStack of real services on 127.0.0.1: keystone, placement, nova-api, nova-manage.

From PyPI, in a virtual environment of their own, on SQLite, with no queue; neutron and
glance are stand-ins. ``tools/lab`` is its command line, ``fixture`` its pytest fixtures.
Linux only: it knows its processes by /proc.
"""
