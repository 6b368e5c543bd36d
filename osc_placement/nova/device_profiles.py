# SPDX-License-Identifier: Apache-2.0
"""Cyborg's device profiles: what a flavor with ``accel:device_profile`` requests.

Nova makes one request group of each group of the profile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from osc_placement import errors
from osc_placement.client import service
from osc_placement.nova import api

#: The extra spec of a flavor, the type of Cyborg in the catalog, and its listing.
SPEC, TYPE, LISTING = "accel:device_profile", "accelerator", "/device_profiles"

_KEY = "device_profiles"

#: ``{"resources:FPGA": "1", "trait:CUSTOM_X": "required"}`` for each group.
Groups = Sequence[Mapping[str, str]]


class CyborgRefused(service.ServiceRefused):
    """Cyborg answered with an error status."""

    service = "cyborg"


class DeviceProfiles:
    """The device profiles of a cloud, or of a recording; read when the first one is asked for."""

    def __init__(self, nova: api.Nova) -> None:
        self._nova = nova
        self._groups: dict[str, Groups] | None = None
        self._problem = ""

    def groups(self, name: str) -> Groups:
        """The groups of a profile.

        Requests: one GET to Cyborg, the first time. Errors: NotKnown; InvalidInput for a profile
        that Cyborg does not have.
        """
        if self._groups is None and not self._problem:
            try:
                self._groups = read(self._nova)
            except errors.PlacementError as error:
                self._problem = str(error)
        if self._groups is None:
            text = f"only Cyborg knows the resources of the device profile {name}"
            raise errors.NotKnown(f"{text}: {self._problem}")
        if name not in self._groups:
            raise errors.InvalidInput([f"Cyborg has no device profile {name}"])
        return self._groups[name]


def read(nova: api.Nova) -> dict[str, Groups]:
    """``{name: its groups}`` of all device profiles.

    Requests: one GET to Cyborg. Errors: CyborgRefused; NotKnown without Cyborg or without the
    catalog.
    """
    body = ask(nova)
    with service.parsing("cyborg", LISTING):
        profiles: dict[str, Groups] = {item["name"]: item["groups"] for item in body[_KEY]}
        for groups in profiles.values():
            for group in groups:
                _ = [int(text) for key, text in group.items() if key.startswith("resources:")]
        return profiles


def ask(nova: api.Nova) -> Any:
    """The response of Cyborg. Requests and errors: those of ``read``."""
    if TYPE not in api.service_types(nova):
        raise errors.NotKnown("the cloud's catalog has no Cyborg (the service type accelerator)")
    if isinstance(nova, api.RecordedNova):
        return nova.ask(LISTING, "2")
    if not isinstance(nova, api.SessionNova):
        raise errors.NotKnown("cyborg was not asked")
    answer, _ = service.send(
        *(nova.connection, TYPE, "GET", LISTING, CyborgRefused), skip_cache=True
    )
    return answer
