# SPDX-License-Identifier: Apache-2.0
"""Commands that move servers: host check, drain, retire and make-room."""
