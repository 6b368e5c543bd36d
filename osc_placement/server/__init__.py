# SPDX-License-Identifier: Apache-2.0
"""The reference server: a complete Placement API for tests, rehearsal and labs.

``create_app`` returns a WSGI application; ``osc-placement-server`` serves it. It does not replace
the production service.
"""

import warnings

# WebOb imports cgi, which warns in Python 3.11 and 3.12. The programs that use this package may
# treat warnings as errors.
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "'cgi' is deprecated", DeprecationWarning)
    from osc_placement.server.app import App, create_app
    from osc_placement.server.context import Limits

__all__ = ["App", "Limits", "create_app"]
