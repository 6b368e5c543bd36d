# SPDX-License-Identifier: Apache-2.0
"""The reference server: a complete Placement API for tests, rehearsal and labs.

``create_app`` returns a WSGI application; ``osc-placement-server`` serves it. It does not replace
the production service.
"""

from osc_placement.server.app import App, create_app
from osc_placement.server.context import Limits

__all__ = ["App", "Limits", "create_app"]
