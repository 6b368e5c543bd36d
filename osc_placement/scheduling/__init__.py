# SPDX-License-Identifier: Apache-2.0
"""What nova's scheduler decides: its requests, its filters, and the rules of its releases. Pure."""
