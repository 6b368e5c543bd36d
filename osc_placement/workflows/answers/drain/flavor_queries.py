# SPDX-License-Identifier: Apache-2.0
"""Nova's requests for its flavors, of which a drain plan keeps the last place."""

from __future__ import annotations

import dataclasses

from osc_placement import errors
from osc_placement.model import candidate
from osc_placement.nova import api, flavors, request, traits
from osc_placement.workflows.cloud import nova_request


def read(nova: api.Nova, options: request.SchedulerOptions) -> dict[str, candidate.CandidateQuery]:
    """``{flavor: nova's request}`` by the newest release that this nova may be.

    A flavor that nova refuses is left out: no server has it. Requests: one to nova for its version,
    one per 1000 flavors.
    """
    releases, _ = nova_request.observe_releases(nova, options)
    single = dataclasses.replace(options, release=max(releases, default=traits.RELEASES[-1]))
    queries: dict[str, candidate.CandidateQuery] = {}
    for flavor in flavors.flavors(nova):
        spec = request.ServerSpec(flavor.flavor, flavor.name)
        try:
            queries[flavor.name] = request.request_to_placement(spec, (), single).query
        except errors.InvalidInput:
            continue
    return queries
