# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration."""

from __future__ import annotations

import importlib.metadata

project = "osc-placement"
release = importlib.metadata.version("osc-placement")
version = release
copyright = "OpenStack contributors"  # noqa: A001

extensions = ["cliff.sphinxext"]
autoprogram_cliff_application = "openstack"

root_doc = "index"
exclude_patterns: list[str] = []
nitpicky = True
# Smart quotes would print "--dry-run" with a dash that no shell accepts.
smartquotes = False
highlight_language = "console"

html_theme = "alabaster"
html_theme_options = {
    "description": "OpenStackClient plugin and operator toolkit for Placement",
    "fixed_sidebar": True,
}
html_copy_source = False
html_show_sourcelink = False
