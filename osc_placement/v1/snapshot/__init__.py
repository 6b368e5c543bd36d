# SPDX-License-Identifier: Apache-2.0
"""Commands for a cloud in a file."""
