# SPDX-License-Identifier: Apache-2.0
"""osc-placement: an operator toolkit for OpenStack Placement, a plugin of ``openstack``.

The packages below stand in layers, and each imports only what is under it::

    v1 -> workflows -> client -> model
    server -> engine -> model
    workflows -> engine

``microversion`` and ``model`` are the vocabulary that all of them share.
"""
