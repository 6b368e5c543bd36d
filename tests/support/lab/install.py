"""The services from PyPI, in a virtual environment of the lab."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from tests.support.lab import place

PACKAGES = {
    "keystone": ("keystone==30.0.0", "gunicorn"),
    "placement": ("openstack-placement==16.0.0", "gunicorn"),
    "nova": ("nova==34.0.0", "gunicorn"),
    "neutron": (),
}
PYTHON_VARIABLE = "OSC_PLACEMENT_LAB_PYTHON"


def install(lab: place.Place, services: Sequence[str]) -> bool:
    """Install what is not there yet; whether there was anything."""
    mark = lab.path("venv", "installed")
    there = set(mark.read_text().split()) if mark.exists() else set()
    missing = {package for name in services for package in PACKAGES[name]} - there
    if not missing:
        return False
    if not lab.path("venv", "bin", "pip").exists():
        python = os.environ.get(PYTHON_VARIABLE, sys.executable)
        lab.run(python, "-m", "venv", str(lab.path("venv")), log="pip.log")
    constraints = str(place.HERE / "constraints.txt")
    pip = (lab.program("python"), "-m", "pip", "install", "-q", "--disable-pip-version-check")
    lab.run(*pip, "-c", constraints, *sorted(missing), log="pip.log")
    mark.write_text("\n".join(sorted(there | missing)))
    return True
