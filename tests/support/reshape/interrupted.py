# SPDX-License-Identifier: Apache-2.0
"""A cloud and its reshape, which tests interrupt."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

from osc_placement import microversion
from osc_placement.plan import apply as plan_apply, file, result
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.reshape import assignment, documents, reshape_plan
from tests.support import embedded, plans
from tests.support.embedded import uuid_of
from tests.support.reshape import cloud_builder

OLD = microversion.Microversion(1, 37)
READING = ReadContext(workers=1)
PROVIDERS: dict[str, Any] = {
    "cn1": (None, {"VCPU": 16, "VGPU": 8}),
    "old": ("cn1", {"CUSTOM_FPGA": 2}),
    "cn2": (None, {"VCPU": 16}),
    "share": (None, {"DISK_GB": 100}),
}
CONSUMERS: dict[str, Any] = {
    "one": {"cn1": {"VCPU": 1, "VGPU": 4}, "share": {"DISK_GB": 10}},
    "moving": {"cn1": {"VCPU": 1, "VGPU": 2}, "cn2": {"VCPU": 1}},
    "fpga": {"old": {"CUSTOM_FPGA": 1}},
    "far": {"cn2": {"VCPU": 3}},
}
#: Every kind of step: a trait, a provider, its traits, the reshape, and a deletion.
MOVES = """\
moves:
- {from: cn1, resources: {VGPU: all}, to: {name: gpu, traits: [CUSTOM_VGPU_A]}}
- {from: old, resources: {CUSTOM_FPGA: all}, to: {name: gpu}}
delete: [old]
"""
WRITES = 6


class Cloud:
    """A client of a Placement that loads the cloud above, and another client."""

    def __init__(self) -> None:
        self.client = embedded.Client(load=cloud_builder.state(PROVIDERS, CONSUMERS))
        self.rival = self.client.rival
        self.start = self.state()

    @property
    def writes(self) -> list[str]:
        """The templates of the writes that the client sent."""
        return [request.template for request in self.client.sent if request.is_write]

    def state(self) -> dict[str, Any]:
        return cloud_builder.without_generations(self.client.export())

    def prepare(self, moves: str = MOVES) -> reshape_plan.Prepared:
        request = reshape_plan.ReshapeRequest(
            documents.parse(moves, "m"), options=assignment.AssignOptions("pack")
        )
        return reshape_plan.plan_reshape(self.client, request, READING)

    def reshape(self, path: pathlib.Path, moves: str = MOVES) -> result.RunReport:
        options = plan_apply.Options(plan_out=path, undo_out=path.with_suffix(".undo"))
        return plans.apply_new(self.client, self.prepare(moves).planned, "reshape", options)

    def apply(self, path: pathlib.Path) -> result.RunReport:
        loaded = file.read(path)
        return plans.apply_file(self.client, loaded, path, plan_apply.Options())

    def take_back(self, path: pathlib.Path) -> result.RunReport:
        loaded = file.read(path)
        return plans.undo_file(self.client, loaded, path, plan_apply.Options())

    def consumer(self, name: str, **allocations: dict[str, int]) -> None:
        """Another client changes the allocations of a consumer."""
        client = self.rival.at(OLD)
        before = client.show_allocations(uuid_of(name))
        expected = {uuid_of(key): amounts for key, amounts in allocations.items()}
        owner: dict[str, Any] = (
            {"project_id": "p", "user_id": "u"} if before.project_id is None else {}
        )
        client.replace_allocations(dataclasses.replace(before, allocations=expected, **owner))
