# SPDX-License-Identifier: Apache-2.0
"""What a release of nova says about itself; run this with its Python. Prints a JSON object.

``oldest``
    The alias and the number of the oldest nova-compute beside which its services start.
``aliases``
    ``{alias of a release: number of its nova-compute}``.
``minimum``
    The microversion of Placement that it needs.
``traits``
    The standard traits that the code of nova-compute and of its libvirt driver names.
``one_time_use``
    The error for one-time-use devices that are not reported to Placement; empty without one.
``encryption``
    Whether libvirt's driver has providers for models of memory encryption.
``models``
    Whether nova-compute compares the models of its guests with those of the host at its start.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from collections.abc import Iterator
from unittest import mock

# The first import selects the backend of threads.
import nova.api.openstack
import nova.conf
import os_traits
from nova.cmd import status
from nova.objects import service
from nova.pci import whitelist
from nova.virt.libvirt import driver

MODULES = (
    *("nova.compute.manager", "nova.compute.pci_placement_translator"),
    *("nova.compute.resource_tracker", "nova.virt.driver", "nova.virt.libvirt.driver"),
    *("nova.virt.libvirt.host", "nova.virt.libvirt.utils"),
)


def names(code: types.CodeType) -> Iterator[str]:
    """The names and texts of a module's code, functions included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names(constant)
        elif isinstance(constant, str):
            yield constant


def traits() -> list[str]:
    known = set(os_traits.get_traits())
    found = set()
    for module in MODULES:
        spec = importlib.util.find_spec(module)
        found |= known.intersection(names(spec.loader.get_code(module)))  # type: ignore[union-attr]
    # The driver makes these names of nova's list of models.
    models = getattr(driver.LibvirtDriver, "_get_sound_model_traits", lambda _: {})
    found |= known.intersection(models(mock.MagicMock()))
    return sorted(found)


def one_time_use() -> str:
    nova.conf.CONF([], project="nova", default_config_files=[])
    try:
        whitelist.Whitelist([json.dumps({"vendor_id": "10de", "one_time_use": "true"})])
    except Exception as error:  # noqa: BLE001 - nova's own, of any kind
        return str(error)
    return ""


def main() -> None:
    json.dump(
        {
            "oldest": service.OLDEST_SUPPORTED_SERVICE_VERSION,
            "aliases": service.SERVICE_VERSION_ALIASES,
            "minimum": status.MIN_PLACEMENT_MICROVERSION,
            "traits": traits(),
            "one_time_use": one_time_use(),
            "encryption": hasattr(
                driver.LibvirtDriver, "_update_provider_tree_for_memory_encryption"
            ),
            "models": hasattr(driver.LibvirtDriver, "_validate_mem_encryption_configuration"),
        },
        sys.stdout,
    )


main()
