# SPDX-License-Identifier: Apache-2.0
"""A cloud in a file: save, show, compare, replay."""
