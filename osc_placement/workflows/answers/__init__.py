# SPDX-License-Identifier: Apache-2.0
"""Answers about a cloud: why no valid host, what fits, may these hosts stop."""
