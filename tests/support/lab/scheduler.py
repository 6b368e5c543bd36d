"""The requests of nova to Placement for flavors and images on stdin, from nova's functions.

Run this with the lab's Python: ``scheduler.py < CASES.json``, a list of ``{flavor, specs, image,
volume}``. It needs no service, and a database only for ``filters``. For each case it prints
``{scheduler, manage}``: the query string of nova's scheduler, and the resources that nova-manage
computes; or ``refused``. A case with ``filters`` (the options of ``[scheduler]``) has ``{request}``
instead: the query string after all request filters, with the host aggregates in ``aggregates``.
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

from nova import config, context, objects
from nova.db import migration
from nova.db.api import api as api_database
from nova.db.main import api as main_database
from nova.scheduler import request_filter, utils

SERVER = "10ca1ab0-0000-4000-8000-000000000001"


def scheduler(admin: Any, case: Mapping[str, Any]) -> dict[str, str]:
    """``{parameter: value}`` of GET /allocation_candidates, without the limit."""
    spec = objects.RequestSpec(
        admin,
        flavor=_flavor(admin, case),
        image=objects.ImageMeta.from_dict({"name": "i", "properties": case["image"]}),
        is_bfv=case["volume"],
        num_instances=1,
        instance_uuid=SERVER,
        requested_resources=[],
        request_level_params=objects.RequestLevelParams(),
    )
    query_string = utils.ResourceRequest.from_request_spec(spec).to_querystring()
    query = dict(urllib.parse.parse_qsl(query_string))
    query.pop("limit", None)
    return query


def request(admin: Any, case: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The parameters of GET /allocation_candidates after all request filters."""
    filters = dict(case["filters"])
    owner = filters.pop("owner")
    for name, value in filters.items():
        config.CONF.set_override(name, value, group="scheduler")
    spec = objects.RequestSpec(
        admin,
        flavor=_flavor(admin, case),
        image=objects.ImageMeta.from_dict(
            {"name": "i", "disk_format": case["disk_format"], "properties": case["image"]}
        ),
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
    )
    # Whether every nova-compute sets the trait is in nova's database.
    with mock.patch.object(request_filter, "_should_filter_by_owner", return_value=owner):
        request_filter.process_reqspec(admin, spec)
    found = utils.resources_from_request_spec(admin, spec, None)
    return urllib.parse.parse_qsl(found.to_querystring())


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
    kept = {f"image_{name}": value for name, value in case["image"].items()}
    instance = objects.Instance(admin, uuid=SERVER, flavor=flavor, system_metadata=kept)
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
    admin = context.get_admin_context()
    functions: dict[str, Callable[..., Any]] = {"scheduler": scheduler, "manage": manage}
    cases = json.load(sys.stdin)
    if cases and "filters" in cases[0]:
        create_aggregates(admin, cases[0]["aggregates"])
        functions = {"request": request}
    results = [
        {name: _result_or_refused(each, admin, case) for name, each in functions.items()}
        for case in cases
    ]
    json.dump(results, sys.stdout)


main()
