# SPDX-License-Identifier: Apache-2.0
"""Commands that find and repair wrong records."""
