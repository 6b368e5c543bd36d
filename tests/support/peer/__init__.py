# SPDX-License-Identifier: Apache-2.0
"""Servers in their own processes: openstack-placement and the reference server."""
