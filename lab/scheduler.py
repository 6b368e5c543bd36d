# SPDX-License-Identifier: Apache-2.0
"""The requests of nova to Placement for flavors and images on stdin, from nova's functions.

Run this with the Python of a nova release: ``scheduler.py < CASES.json``, a list of ``{flavor,
specs, image, volume, filters, aggregates, pci}``: ``filters`` and ``pci`` are options of nova.conf.
It needs no service. For each case it prints ``{request, manage}``: the query string after the
checks of nova's API and all request filters, and the resources that nova-manage computes without an
image; or ``refused``.

``scheduler.py --vocabulary`` prints ``{version, specs, image}``: the maximum of the compute API,
and what nova's validators of extra specs and nova's image properties accept.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

# The first import selects the backend of threads.
import nova.api.openstack  # noqa: F401
from nova import config, context, objects
from nova.api.openstack import api_version_request
from nova.api.validation.extra_specs import validators
from nova.compute import api as compute_api
from nova.db import migration
from nova.db.api import api as api_database
from nova.db.main import api as main_database
from nova.objects import image_meta
from nova.pci import request as pci_request
from nova.scheduler import request_filter, utils

SERVER = "10ca1ab0-0000-4000-8000-000000000001"


def vocabulary() -> dict[str, Any]:
    """``{version, specs: {key: {type, enum, pattern, min, max}}, image: {key: {type, enum}}}``."""
    specs = {
        name: {**validator.value, "type": validator.value["type"].__name__}
        for name, validator in validators.VALIDATORS.items()
    }
    image = {}
    for name, field in image_meta.ImageMetaProps.fields.items():
        kind = field._type
        image[name] = {
            "type": type(kind).__name__,
            "enum": getattr(kind, "valid_values", None),
        }
    return {"version": api_version_request._MAX_API_VERSION, "specs": specs, "image": image}


def request(admin: Any, case: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The parameters of GET /allocation_candidates after all request filters."""
    filters = dict(case["filters"])
    owner = filters.pop("owner")
    for name, value in filters.items():
        config.CONF.set_override(name, value, group="scheduler")
    aliases = [json.dumps(alias) for alias in case["pci"]["alias"]]
    config.CONF.set_override("alias", aliases, group="pci")
    in_placement = case["pci"]["pci_in_placement"]
    config.CONF.set_override("pci_in_placement", in_placement, group="filter_scheduler")
    # Nova reads the aliases once.
    for function in vars(pci_request).values():
        getattr(function, "cache_clear", lambda: None)()
    flavor = _flavor(admin, case)
    properties = {
        "id": "i",
        "name": "i",
        "disk_format": case["disk_format"],
        "properties": case["image"],
    }
    # What nova's API checks before it schedules a server.
    # A policy decides about flavors without a disk.
    with mock.patch.object(type(admin), "can", return_value=True):
        compute_api.API._validate_flavor_image_nostatus(
            admin, {**properties, "min_ram": 0, "min_disk": 0}, flavor, None
        )
    spec = objects.RequestSpec(
        admin,
        flavor=flavor,
        image=objects.ImageMeta.from_dict(properties),
        is_bfv=case["volume"],
        num_instances=1,
        instance_uuid=SERVER,
        availability_zone=case["zone"],
        project_id=case["project"],
        requested_resources=[],
        request_level_params=objects.RequestLevelParams(),
        requested_networks=objects.NetworkRequestList(objects=[]),
        scheduler_hints={},
        force_hosts=None,
        force_nodes=None,
        pci_requests=pci_request.get_pci_requests_from_flavor(flavor),
    )
    # Nova 27 requests no PCI devices from Placement.
    getattr(spec, "generate_request_groups_from_pci_requests", lambda: None)()
    # Whether every nova-compute sets the trait is in nova's database.
    patched = mock.patch.object(
        request_filter, "_should_filter_by_owner", return_value=owner, create=True
    )
    with patched:
        request_filter.process_reqspec(admin, spec)
        requested = utils.resources_from_request_spec(admin, spec, None)
    return urllib.parse.parse_qsl(requested.to_querystring())


def create_aggregates(admin: Any, aggregates: Mapping[str, Mapping[str, str]]) -> None:
    """Create host aggregates, ``{uuid: metadata}``, in a database of this process."""
    folder = tempfile.mkdtemp()
    for name, group in (("api", "api_database"), ("main", "database")):
        config.CONF.set_override("connection", f"sqlite:///{folder}/{name}.sqlite", group=group)
    main_database.configure(config.CONF)
    api_database.configure(config.CONF)
    migration.db_sync(database="api")
    for uuid, metadata in aggregates.items():
        objects.Aggregate(admin, name=uuid, uuid=uuid, metadata=dict(metadata)).create()


def manage(admin: Any, case: Mapping[str, Any]) -> dict[str, int]:
    """``{resource class: amount}`` that heal_allocations writes."""
    flavor = _flavor(admin, case)
    instance = objects.Instance(admin, uuid=SERVER, flavor=flavor, system_metadata={})
    # The database has the boot volume.
    with mock.patch("nova.compute.utils.is_volume_backed_instance", return_value=case["volume"]):
        return dict(utils.resources_from_flavor(instance, flavor))


def _flavor(admin: Any, case: Mapping[str, Any]) -> Any:
    numbers = case["flavor"]
    return objects.Flavor(
        admin,
        name="f",
        flavorid="f",
        vcpus=numbers["vcpus"],
        memory_mb=numbers["ram"],
        root_gb=numbers["disk"],
        ephemeral_gb=numbers["ephemeral"],
        swap=numbers["swap"],
        extra_specs=dict(case["specs"]),
    )


def _result_or_refused(function: Callable[[Any, Mapping[str, Any]], Any], *words: Any) -> Any:
    try:
        return function(*words)
    # Nova has a separate exception for each contradiction.
    except Exception as error:  # noqa: BLE001
        return {"refused": f"{type(error).__name__}: {error}"}


def main() -> None:
    config.parse_args(["scheduler"], default_config_files=[])
    logging.disable(logging.CRITICAL)
    objects.register_all()
    if sys.argv[1:] == ["--vocabulary"]:
        json.dump(vocabulary(), sys.stdout)
        return
    admin = context.get_admin_context()
    functions: dict[str, Callable[..., Any]] = {"request": request, "manage": manage}
    cases = json.load(sys.stdin)
    create_aggregates(admin, cases[0]["aggregates"])
    results = [
        {name: _result_or_refused(function, admin, case) for name, function in functions.items()}
        for case in cases
    ]
    json.dump(results, sys.stdout)


main()
