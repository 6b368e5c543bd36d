"""From a call to an answer, a module per resource.

A handler reads the request by its schema, asks the engine, and says what it found in the
form of the call's microversion. It raises; it never makes an error response.
"""
