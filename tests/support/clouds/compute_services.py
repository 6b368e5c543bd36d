# SPDX-License-Identifier: Apache-2.0
"""Random compute services and compute nodes for the hosts of a cloud, as nova's API shows them.

``accepted`` is written down independently of the plugin: nova's scheduler knows a root provider by
the UUID of a compute node, and its ComputeFilter wants a service that is enabled and up; a service
that is forced down is not up, and the nodes of a cell that is down are not known.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from osc_placement.nova import api
from osc_placement.testing import nova as nova_kit

#: ``{state: fields of the service that differ}``; None for a host without a service.
STATES: Mapping[str, Mapping[str, Any] | None] = {
    "up": {},
    "down": {"state": "down"},
    "forced down": {"state": "down", "forced_down": True},
    "forced down, still reporting": {"forced_down": True},
    "disabled": {"status": "disabled"},
    "disabled and down": {"status": "disabled", "state": "down"},
    "no service": None,
    "no node": {},
    "cell down": {},
}


def accepted(states: Mapping[str, str]) -> set[str]:
    """The root providers of ``{UUID: state}`` that nova's ComputeFilter accepts."""
    return {uuid for uuid, state in states.items() if state == "up"}


def draw_states(draw: random.Random, roots: Sequence[str]) -> dict[str, str]:
    """A state for each host; about half of them are up."""
    return {root: draw.choice((*STATES, *["up"] * len(STATES))) for root in roots}


def answers(states: Mapping[str, str], names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The answers of nova for hosts in these states; ``names`` are those of the providers.

    A root that nova does not know may have the hostname of another provider's node.
    """
    services, nodes = [], []
    for number, (uuid, state) in enumerate(states.items()):
        host = f"nova-{number}"
        fields = STATES[state]
        if state == "cell down":
            services.append({"binary": "nova-compute", "host": host, "status": "UNKNOWN"})
            continue
        if fields is not None:
            services.append(nova_kit.service(host, **fields))
        # Nova has another node with the hostname of a provider that it does not have.
        own = f"00000000-0000-4000-9000-{number:012}" if state == "no node" else uuid
        nodes.append(nova_kit.node(own, (names or {}).get(uuid, uuid), host))
    return nova_kit.answers(services=services, hypervisors=nodes)


def nova(states: Mapping[str, str], **more: Any) -> api.RecordedNova:
    """A nova with hosts in these states."""
    return api.RecordedNova({**answers(states), **more}, "a test")
