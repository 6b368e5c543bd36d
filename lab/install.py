# SPDX-License-Identifier: Apache-2.0
"""Install the services from PyPI in the lab's virtual environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from lab import place

PACKAGES = {
    "keystone": ("keystone==30.0.0", "gunicorn"),
    "placement": ("openstack-placement==16.0.0", "gunicorn"),
    "nova": ("nova==34.0.0", "gunicorn"),
    "neutron": (),
}
#: The last versions of nova's releases, and of libraries that they need.
NOVA_RELEASES: Mapping[int, tuple[str, ...]] = {
    27: ("nova==27.5.1", "oslo.utils<7.1", "SQLAlchemy<2"),
    28: ("nova==28.3.1", "oslo.utils<7.1", "SQLAlchemy<2"),
    29: ("nova==29.4.0", "oslo.utils<7.1", "SQLAlchemy<2.1"),
    30: ("nova==30.3.0", "oslo.utils<8", "SQLAlchemy<2.1"),
    31: ("nova==31.3.1",),
    32: ("nova==32.2.1",),
    33: ("nova==33.0.2",),
    34: ("nova==34.0.0",),
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


def release_python(lab: place.Place, release: int, *more: str) -> str:
    """The Python of a virtual environment with a release of nova, and with ``more`` packages.

    Requests: to PyPI, about 100 packages for each new release.
    """
    # Older releases use pkg_resources.
    return environment(lab, f"nova-{release}", (*NOVA_RELEASES[release], "setuptools<81", *more))


def environment(lab: place.Place, name: str, packages: Sequence[str]) -> str:
    """The Python of the virtual environment ``name``, which is made if it has other packages."""
    folder = lab.path(name)
    python, mark, wanted = str(folder / "bin" / "python"), folder / "installed", "\n".join(packages)
    if not (mark.exists() and mark.read_text() == wanted):
        base = os.environ.get(PYTHON_VARIABLE, sys.executable)
        # The resolver of pip takes more than ten minutes for an old release.
        if uv := shutil.which("uv"):
            lab.run(uv, "venv", "-q", "--clear", "--python", base, str(folder))
            install_with = (uv, "pip", "install", "-q", "--python", python)
        else:
            lab.run(base, "-m", "venv", str(folder))
            install_with = (python, "-m", "pip", "install", "-q", "--disable-pip-version-check")
        lab.run(*install_with, *packages, log="pip.log")
        mark.write_text(wanted)
    return python


def ask_release(
    lab: place.Place, release: int, script: str, question: Any = None, *options: str
) -> Any:
    """The JSON that a script of this folder prints with the Python of a release of nova.

    ``question`` is its input, as JSON.

    Requests: those of ``release_python``.
    """
    words = ("-P", str(place.HERE / script), *options)
    return json.loads(output_of_release(lab, release, *words, text=json.dumps(question)))


def output_of_release(lab: place.Place, release: int, *words: str, text: str = "") -> str:
    """What the Python of a release of nova prints in the checkout; ``text`` is its input.

    Requests: those of ``release_python``.
    """
    completed = subprocess.run(
        [release_python(lab, release), "-W", "ignore", *words],
        cwd=place.ROOT,
        env=dict(lab.environment()),
        input=text,
        capture_output=True,
        text=True,
        timeout=1700,
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout
