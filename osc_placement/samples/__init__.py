# SPDX-License-Identifier: Apache-2.0
"""Sample clouds: recorded states of real placement, nova and neutron services."""
