"""The Placement HTTP API as Python calls.

``api.Client`` has one method per request; ``transport`` alone knows keystoneauth and
requests, ``wire`` alone knows which JSON belongs to which microversion. Workflows and
commands call this package; it calls ``model`` only.
"""
