# SPDX-License-Identifier: Apache-2.0
"""The Placement HTTP API as Python calls.

``api.Client`` has one method per request. ``transport`` sends requests, ``wire`` converts
between JSON of each microversion and values, ``retry`` repeats requests, and ``lookup`` finds
providers by name.
"""
