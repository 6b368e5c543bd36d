# SPDX-License-Identifier: Apache-2.0
"""Nova's requests for its flavors, of which a drain plan keeps the last place."""

from __future__ import annotations

import dataclasses
import functools

from osc_placement import errors
from osc_placement.client import api as placement_api
from osc_placement.nova import api, flavors
from osc_placement.scheduling import nova_options, request
from osc_placement.workflows.cloud import nova_request
from osc_placement.workflows.moving.places import Wanted


def read(
    client: placement_api.Client, nova: api.Nova, options: nova_options.SchedulerOptions
) -> dict[str, Wanted]:
    """``{flavor: nova's queries}`` by the newest release that this nova may be.

    A flavor that nova refuses is left out: no server has it. Requests: those of
    ``nova_request.observe_rules`` and ``isolated_aggregates``, and one to nova per 1000 flavors.
    """
    with_trait = functools.partial(nova_request.with_trait, client)
    single = nova_request.observe_rules(nova, options, with_trait).newest
    aggregates = nova_request.isolated_aggregates(nova, single)
    queries: dict[str, Wanted] = {}
    for flavor in flavors.flavors(nova):
        spec = request.ServerSpec(flavor.flavor, flavor.name)
        try:
            found = request.request_to_placement(spec, aggregates, single).queries
            queries[flavor.name] = Wanted(
                (tuple(dataclasses.replace(query, limit=None) for query in found),)
            )
        except errors.InvalidInput:
            continue
    return queries
