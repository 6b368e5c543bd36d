# SPDX-License-Identifier: Apache-2.0
"""The metadata is in setup.cfg, except for the README's pictures.

A checkout shows pictures by their relative path. A package index has only the text, so that the
metadata need their address in the source repository, at the tag of the release.
"""

import configparser
import pathlib
import re

import setuptools

FOLDER = pathlib.Path(__file__).parent

config = configparser.ConfigParser(delimiters=("=",))
config.read(FOLDER / "setup.cfg")
metadata = config["metadata"]
source = re.findall(r"Source = (\S+)", metadata["project_urls"])[0]
pictures = f"{source}/raw/tag/{metadata['version']}/"
readme = (FOLDER / "README.rst").read_text("utf-8")
setuptools.setup(
    long_description=re.sub(r"^(\.\. image:: )(?=doc/)", rf"\g<1>{pictures}", readme, flags=re.M)
)
