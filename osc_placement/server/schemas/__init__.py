"""What request bodies and query strings must look like, as JSON Schema.

The schemas are interface: Placement prints them in its errors, keys in this order.
"""
