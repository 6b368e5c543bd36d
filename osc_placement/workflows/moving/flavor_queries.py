# SPDX-License-Identifier: Apache-2.0
"""Nova's requests for its flavors, of which a drain plan keeps the last place."""

from __future__ import annotations

import functools

from osc_placement import errors
from osc_placement.client import api as placement_api
from osc_placement.model import candidate
from osc_placement.nova import api, flavors
from osc_placement.scheduling import request
from osc_placement.workflows.cloud import nova_request


def read(
    client: placement_api.Client, nova: api.Nova, options: request.SchedulerOptions
) -> dict[str, candidate.CandidateQuery]:
    """``{flavor: nova's request}`` by the newest release that this nova may be.

    A flavor that nova refuses is left out: no server has it. Requests: those of
    ``nova_request.observe_rules``, and one to nova per 1000 flavors.
    """
    has_owner = functools.partial(nova_request.has_owner, client)
    single = nova_request.observe_rules(nova, options, has_owner).newest
    queries: dict[str, candidate.CandidateQuery] = {}
    for flavor in flavors.flavors(nova):
        spec = request.ServerSpec(flavor.flavor, flavor.name)
        try:
            queries[flavor.name] = request.request_to_placement(spec, (), single).query
        except errors.InvalidInput:
            continue
    return queries
