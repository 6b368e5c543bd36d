# SPDX-License-Identifier: Apache-2.0
"""What all workflows read: providers, hosts, servers and their moves, selections."""
