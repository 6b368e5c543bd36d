# SPDX-License-Identifier: Apache-2.0
"""Online data migrations: ``registry`` lists and runs them."""
