# SPDX-License-Identifier: Apache-2.0
"""Tests of the API of any Placement: an own server, a fake, another implementation.

::

    pytest --pyargs osc_placement.testing.conformance --placement-url http://127.0.0.1:8778

One YAML file per subject, in the form of gabbi. Each holds for openstack-placement 16. The requests
close their connection, because gabbi keeps one for each test, and servers limit their number.
"""
