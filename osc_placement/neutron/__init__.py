# SPDX-License-Identifier: Apache-2.0
"""Neutron: ports with resource requests, and the network API calls."""
