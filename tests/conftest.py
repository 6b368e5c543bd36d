"""What every test may import: the packages under test, and ``tests`` itself."""

from __future__ import annotations

import pathlib
import sys

# At the end: an .egg-info that a build left in the checkout must not hide the entry points of
# the installed package.
sys.path.append(str(pathlib.Path(__file__).parents[1]))
