# SPDX-License-Identifier: Apache-2.0
"""The Placement HTTP API as Python calls.

``api.Client`` has one method per request. ``transport`` sends requests, ``wire`` converts
between JSON of each microversion and values, ``retry`` repeats requests, and ``lookup`` finds
providers by name.
"""

import warnings

# osc-lib warns of itself. The programs that use this package may treat warnings as errors.
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "The osc_lib.version module", DeprecationWarning)
    import osc_lib as _osc_lib  # noqa: F401
