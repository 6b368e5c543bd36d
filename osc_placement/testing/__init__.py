# SPDX-License-Identifier: Apache-2.0
"""The public API for tests of other projects that use Placement.

* ``sample_cloud("12-hosts")``: the placement state of a sample cloud;
* ``sample_nova("12-hosts")``: recorded responses of nova and neutron for that cloud;
* ``osc_placement.testing.service``: the embedded server, in process or on a port;
* ``osc_placement.testing.pytest_plugin``: pytest fixtures for the embedded server, loaded by
  pytest automatically where this package is installed.

A release note announces every change of these names.
"""

from __future__ import annotations

from osc_placement.samples.sample import (
    UnknownSample,
    sample_cloud,
    sample_cloud_names,
    sample_nova,
)

__all__ = ["UnknownSample", "sample_cloud", "sample_cloud_names", "sample_nova"]
