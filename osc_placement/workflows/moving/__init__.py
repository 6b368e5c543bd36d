# SPDX-License-Identifier: Apache-2.0
"""Moving servers: whether hosts may stop, and plans that empty, fill and retire them."""
