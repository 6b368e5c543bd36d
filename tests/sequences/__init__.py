"""The embedded server against openstack-placement, request by request.

``generate`` makes random sequences of valid and invalid requests at all microversions,
``compare`` sends each to both servers and tells where the answers differ.
"""
