# SPDX-License-Identifier: Apache-2.0
"""The metadata is in setup.cfg, except for the README's pictures.

A checkout shows pictures by their relative path. A package index has only the text, and there is
no address at which the pictures of a release stand.
"""

import pathlib
import re

import setuptools

readme = (pathlib.Path(__file__).parent / "README.rst").read_text("utf-8")
setuptools.setup(
    long_description=re.sub(r"^\.\. image:: doc/.*\n(   .*\n)*\n", "", readme, flags=re.M)
)
