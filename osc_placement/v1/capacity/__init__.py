# SPDX-License-Identifier: Apache-2.0
"""The command that counts what fits."""
