# SPDX-License-Identifier: Apache-2.0
"""Why a request has no host, which changes give one, and which flavors no host can serve."""
