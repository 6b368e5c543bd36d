# SPDX-License-Identifier: Apache-2.0
"""Random compute services and compute nodes for the hosts of a cloud, as nova's API shows them.

``accepted`` is written down independently of the plugin: nova's scheduler knows a root provider by
the UUID of a compute node, and its ComputeFilter wants a service that is enabled and up; a service
that is forced down is not up, and the nodes of a cell that is down are not known.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from osc_placement.nova import api

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
_FIELDS = {"binary": "nova-compute", "state": "up", "status": "enabled", "forced_down": False}


def compute_hosts(
    nodes: Iterable[tuple[str, str, str]], services: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """Nova's answers for ``(host, name of its node, UUID of its node)``.

    ``services`` changes fields of the services of hosts.
    """
    listed = list(nodes)
    return {
        "GET /v2.1/os-services": {
            "services": [
                {**_FIELDS, "host": host, **(services or {}).get(host, {})} for host, _, _ in listed
            ]
        },
        "GET /v2.1/os-hypervisors/detail": {
            "hypervisors": [
                {
                    "id": uuid,
                    "hypervisor_hostname": name,
                    "service": {"host": host},
                    "cpu_info": {"arch": "x86_64"},
                }
                for host, name, uuid in listed
            ]
        },
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
            services.append({**_FIELDS, "host": host, **fields})
        # Nova has another node with the hostname of a provider that it does not have.
        own = f"00000000-0000-4000-9000-{number:012}" if state == "no node" else uuid
        hostname = (names or {}).get(uuid, uuid)
        nodes.append(
            {
                "id": own,
                "hypervisor_hostname": hostname,
                "service": {"host": host},
                "cpu_info": {"arch": "x86_64"},
            }
        )
    return {
        "GET /v2.1/os-services": {"services": services},
        "GET /v2.1/os-hypervisors/detail": {"hypervisors": nodes},
    }


def nova(states: Mapping[str, str], **more: Any) -> api.RecordedNova:
    """A nova with hosts in these states."""
    return api.RecordedNova({**answers(states), **more}, "a test")
