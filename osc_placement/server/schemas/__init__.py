"""JSON Schemas of request bodies and query strings.

The schemas are interface: Placement prints them in its errors, with the keys in this order.
"""
