# SPDX-License-Identifier: Apache-2.0
"""Why a query has no allocation candidates, and which changes give one."""
