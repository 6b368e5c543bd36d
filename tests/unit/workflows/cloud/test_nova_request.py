# SPDX-License-Identifier: Apache-2.0
"""Nova's request for a server, read from nova, neutron and glance."""

from __future__ import annotations

from typing import Any

import pytest

from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api, flavors, request
from osc_placement.workflows.cloud import nova_request

SERVER, IMAGE = "00000000-0000-4000-8000-0000000000c1", "00000000-0000-4000-8000-0000000000d1"


class Glance:
    """Answers 404 for an image by ID, and no image for a name; or refuses every request."""

    def __init__(self, status: int) -> None:
        self._status = status

    def ask(self, path: str) -> Any:
        if "?name=" in path:
            return {"images": []}
        raise flavors.GlanceRefused(self._status, "no", url=path)


def recorded() -> api.RecordedNova:
    """Nova with a server from an image."""
    server = {
        "id": SERVER, "name": "web", "tenant_id": "p", "user_id": "u", "status": "ACTIVE",
        "OS-EXT-SRV-ATTR:host": "h", "OS-EXT-SRV-ATTR:hypervisor_hostname": "h",
        "OS-EXT-STS:vm_state": "active", "OS-EXT-STS:task_state": None, "image": {"id": IMAGE},
        "flavor": {
            "vcpus": 2, "ram": 16, "disk": 0, "swap": 0, "ephemeral": 0, "extra_specs": {},
            "original_name": "small",
        },
        "created": "", "updated": "",
    }  # fmt: skip
    answers: dict[str, Any] = {
        "GET /v2.1/os-aggregates": {"aggregates": []},
        f"GET /v2.1/servers/detail?uuid={SERVER}": {"servers": [server]},
        "GET /v2.0/ports": {"ports": []},
    }
    return api.RecordedNova(answers, "nova")


@pytest.mark.parametrize(
    ("status", "assumed"),
    [
        (404, f"the image {IMAGE} of the server is deleted"),
        (403, f"the format of the image {IMAGE} is not known: glance, GET /images/{IMAGE}: no"),
    ],
)
def test_a_server_without_its_image_has_a_request_with_an_assumption(
    status: int, assumed: str
) -> None:
    nova = recorded()
    services = nova_request.RequestServices(
        nova,
        lambda: neutron_api.RecordedNeutron(nova.recorded, nova.source),
        lambda: Glance(status),
    )
    scheduler = request.SchedulerOptions(query_placement_for_image_type_support=True)
    options = nova_request.RequestOptions(server=SERVER, scheduler=scheduler)
    for single in nova_request.observe_request(services, options):
        assert single.query.groups[0].resources == {"VCPU": 2, "MEMORY_MB": 16}
        assert any(text.startswith(assumed) for text in single.assumptions), single.assumptions
