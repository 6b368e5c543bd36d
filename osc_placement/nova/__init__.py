# SPDX-License-Identifier: Apache-2.0
"""Nova: its values, the compute API calls, and its flavor and pinning rules."""
