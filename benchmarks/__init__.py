# SPDX-License-Identifier: Apache-2.0
"""The measurements of the tools/benchmark* programs.

The results are in doc/source/server/performance.rst and doc/source/about/speed.rst.
"""
