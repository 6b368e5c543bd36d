"""Install the services from PyPI in the lab's virtual environment."""

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
    """Install the missing packages; return whether any were missing."""
    mark = lab.path("venv", "installed")
    installed = set(mark.read_text().split()) if mark.exists() else set()
    missing = {package for name in services for package in PACKAGES[name]} - installed
    if not missing:
        return False
    if not lab.path("venv", "bin", "pip").exists():
        python = os.environ.get(PYTHON_VARIABLE, sys.executable)
        lab.run(python, "-m", "venv", str(lab.path("venv")), log="pip.log")
    constraints = str(place.HERE / "constraints.txt")
    pip = (lab.program("python"), "-m", "pip", "install", "-q", "--disable-pip-version-check")
    lab.run(*pip, "-c", constraints, *sorted(missing), log="pip.log")
    mark.write_text("\n".join(sorted(installed | missing)))
    return True
