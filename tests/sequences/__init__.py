# SPDX-License-Identifier: Apache-2.0
"""The reference server compared with openstack-placement, request by request.

``generate`` creates random sequences of valid and invalid requests at all microversions,
``compare`` sends each to both servers and reports differences.
"""
