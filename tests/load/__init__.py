# SPDX-License-Identifier: Apache-2.0
"""The server with many concurrent writers."""
