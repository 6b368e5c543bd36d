"""What people who test software that talks to Placement may import.

* ``sample_cloud("12-hosts")``: the state of a real cloud, as a document;
* ``sample_nova("12-hosts")``: what nova and neutron answered about the same cloud;
* ``osc_placement.testing.service``: the embedded server, in process or on a port;
* ``osc_placement.testing.pytest_plugin``: both as pytest fixtures, loaded by
  pytest on its own where this package is installed.

Everything named here is public: it changes with a release note only.
"""

from __future__ import annotations

from osc_placement.samples.sample import (
    UnknownSample,
    sample_cloud,
    sample_cloud_names,
    sample_nova,
)

__all__ = ["UnknownSample", "sample_cloud", "sample_cloud_names", "sample_nova"]
