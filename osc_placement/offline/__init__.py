# SPDX-License-Identifier: Apache-2.0
"""openstack-placement in this process, on the database of its configuration, without a service.

Imports openstack-placement, which the extra ``offline`` installs.
"""

import warnings

# As in osc_placement.server: openstack-placement imports WebOb, which imports cgi.
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "'cgi' is deprecated", DeprecationWarning)
    import webob as _webob  # noqa: F401
