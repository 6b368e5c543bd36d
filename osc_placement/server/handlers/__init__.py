# SPDX-License-Identifier: Apache-2.0
"""From a request to a response, one module per resource.

A handler validates the request by its schema, calls the engine, and formats the result for the
request's microversion. It raises errors and never builds an error response.
"""
