# SPDX-License-Identifier: Apache-2.0
"""Random input over a socket."""
