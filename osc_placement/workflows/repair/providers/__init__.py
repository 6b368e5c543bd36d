# SPDX-License-Identifier: Apache-2.0
"""The audit of resource providers: ``audit`` compares them with nova and neutron."""
