# SPDX-License-Identifier: Apache-2.0
"""The providers that matter for one query, read from a cloud or a database file."""
