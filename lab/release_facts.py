# SPDX-License-Identifier: Apache-2.0
"""What a release of nova says about itself; run this with its Python. Prints a JSON object.

``version``
    The service version of its nova-compute at the release; a later update may raise it.
``oldest``
    The least service version of a nova-compute beside which its other services start.
``workaround``
    Whether ``disable_compute_service_check_for_ffu`` is an option.
``os_traits``, ``qemu``, ``libvirt``
    The least versions that it needs.
``minimum``
    The microversion of Placement that it needs.
``written``
    The standard traits that nova-compute and its libvirt driver may write: those that the code
    names, and those that the driver's functions make for a host that has everything.
``required``
    The standard traits that the code of the scheduler names.
``one_time_use``
    The error for one-time-use devices that are not reported to Placement; empty without one.
``encryption``
    Whether libvirt's driver has providers for models of memory encryption.
``models``
    Whether nova-compute compares the models of its guests with those of the host at its start.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import re
import sys
import types
from collections.abc import Iterable, Iterator
from importlib import metadata
from unittest import mock

# The first import selects the backend of threads.
import nova.api.openstack
import nova.conf
import os_traits
from nova import utils
from nova.cmd import status
from nova.objects import fields, service
from nova.pci import whitelist
from nova.virt.libvirt import driver

COMPUTE = (
    *("nova.compute.manager", "nova.compute.pci_placement_translator"),
    *("nova.compute.resource_tracker", "nova.virt.driver", "nova.virt.libvirt.driver"),
    *("nova.virt.libvirt.host", "nova.virt.libvirt.utils"),
)
SCHEDULER = ("nova.scheduler.request_filter", "nova.scheduler.utils", "nova.virt.hardware")
STANDARD = frozenset(os_traits.get_traits())


def names(code: types.CodeType) -> Iterator[str]:
    """The names and texts of a module's code, functions included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names(constant)
        elif isinstance(constant, str):
            yield constant


def named(modules: Iterable[str]) -> set[str]:
    specs = map(importlib.util.find_spec, modules)
    return {name for spec in specs for name in names(spec.loader.get_code(spec.name))}  # type: ignore[union-attr]


def made() -> set[str]:
    """The names that the driver makes of models: each function asks a host that has all of them."""
    traits = set()
    for name in dir(driver.LibvirtDriver):
        if re.fullmatch("_get_.*_traits", name):
            for architecture in fields.Architecture.ALL if "_arch_" in name else ("",):
                host = mock.MagicMock()
                if architecture:
                    host._host.get_capabilities.return_value.host.cpu.arch = architecture
                    host._host.get_domain_capabilities.return_value = {architecture: {}}
                traits.update(getattr(driver.LibvirtDriver, name)(host))
    return traits


def oldest() -> int:
    """The least service version that the services accept, from their own check."""
    # Without a nova-compute the version is 0, and they start.
    for version in range(1, 100):
        answer = mock.Mock(return_value=version)
        with (
            mock.patch.object(service, "get_minimum_version_all_cells", answer),
            mock.patch.object(service.Service, "get_minimum_version", answer),
            contextlib.suppress(Exception),
        ):
            utils.raise_if_old_compute()
            return version
    raise AssertionError("the services accept no version")


def least(package: str) -> str:
    """The least version of a package that nova requires."""
    (text,) = (text for text in metadata.requires("nova") or () if re.match(rf"{package}\b", text))
    return re.findall(r">=([0-9.]+)", text)[0]  # type: ignore[no-any-return]


def one_time_use() -> str:
    try:
        whitelist.Whitelist([json.dumps({"vendor_id": "10de", "one_time_use": "true"})])
    except Exception as error:  # noqa: BLE001 - nova's own, of any kind
        return str(error)
    return ""


def main() -> None:
    nova.conf.CONF([], project="nova", default_config_files=[])
    nova.conf.CONF.set_override("connection", "sqlite://", group="api_database")
    logging.disable(logging.CRITICAL)
    json.dump(
        {
            "version": list(service.SERVICE_VERSION_ALIASES.values())[-1],
            "oldest": oldest(),
            "workaround": "disable_compute_service_check_for_ffu" in nova.conf.CONF.workarounds,
            "os_traits": least("os-traits"),
            "qemu": ".".join(map(str, driver.MIN_QEMU_VERSION)),
            "libvirt": ".".join(map(str, driver.MIN_LIBVIRT_VERSION)),
            "minimum": status.MIN_PLACEMENT_MICROVERSION,
            "written": sorted((named(COMPUTE) | made()) & STANDARD),
            "required": sorted(named(SCHEDULER) & STANDARD),
            "one_time_use": one_time_use(),
            "encryption": hasattr(
                driver.LibvirtDriver, "_update_provider_tree_for_memory_encryption"
            ),
            "models": hasattr(driver.LibvirtDriver, "_validate_mem_encryption_configuration"),
        },
        sys.stdout,
    )


main()
