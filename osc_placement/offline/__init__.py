# SPDX-License-Identifier: Apache-2.0
"""openstack-placement in this process, on the database of its configuration, without a service.

Imports openstack-placement, which the extra ``offline`` installs.
"""
