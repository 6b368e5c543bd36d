# SPDX-License-Identifier: Apache-2.0
"""Commands that explain: why no host, and the audit of flavors."""
