# SPDX-License-Identifier: Apache-2.0
"""Commands that answer questions: explain, capacity, host check, flavor audit."""
