# SPDX-License-Identifier: Apache-2.0
"""Commands for the nouns of Placement, most of them upstream's."""
