"""Compares nova's request for a server with that of nova's own scheduler and request filters."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from osc_placement import errors
from osc_placement.client import query
from osc_placement.nova import request
from osc_placement.nova.values import HostAggregate
from tests.interop import test_flavor
from tests.support.lab import lifecycle, place

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

MANY = 1500

UUID = "00000000-0000-4000-8000-{:012}"
AGGREGATES: Mapping[str, Mapping[str, str]] = {
    UUID.format(1): {"availability_zone": "az1"},
    UUID.format(2): {"availability_zone": "az1", "filter_tenant_id": "acme"},
    UUID.format(3): {"availability_zone": "az2", "filter_tenant_id_2": "acme"},
    UUID.format(4): {"filter_tenant_id": "other"},
    UUID.format(5): {"trait:CUSTOM_A": "required"},
    UUID.format(6): {"trait:CUSTOM_A": "required", "trait:CUSTOM_B": "required"},
    UUID.format(7): {"ssd": "true"},
}

#: extra spec -> (probability, values), besides those of test_flavor
SPECS: Mapping[str, tuple[float, tuple[str, ...]]] = {
    "hw:cpu_thread_policy": (0.2, ("prefer", "isolate", "require")),
    "hw:tpm_version": (0.2, ("1.2", "2.0", "2.0", "3")),
    "hw:tpm_model": (0.1, ("tpm-crb", "tpm-tis")),
    "hw:tpm_secret_security": (0.1, ("user", "host", "deployment", "x")),
    "os:secure_boot": (0.1, ("required", "optional", "disabled")),
    "hw:maxphysaddr_mode": (0.1, ("passthrough", "emulate", "x")),
    "hw:virtio_packed_ring": (0.15, test_flavor.YES),
    "hw:ephemeral_encryption": (0.15, ("true", "false")),
    "hw:ephemeral_encryption_format": (0.1, ("luks", "plain")),
    "hw:sound_model": (0.1, ("virtio", "ich9")),
    "hw:mem_encryption_model": (0.1, ("amd-sev", "amd-sev-es")),
}
IMAGE: Mapping[str, tuple[float, tuple[str, ...]]] = {
    "hw_cdrom_bus": (0.1, ("ide", "sata")),
    "hw_disk_bus": (0.2, ("virtio", "scsi", "xen")),
    "hw_video_model": (0.2, ("vga", "none", "qxl")),
    "hw_vif_model": (0.2, ("virtio", "e1000e", "spapr-vlan")),
    "hw_architecture": (0.1, ("x86_64", "aarch64", "i686")),
    "hw_emulation_architecture": (0.1, ("aarch64",)),
    "hw_firmware_stateless": (0.1, ("true", "false")),
    "hw_machine_type": (0.2, ("q35", "pc")),
    "hw_tpm_model": (0.1, ("tpm-crb", "tpm-tis")),
    "hw_virtio_packed_ring": (0.1, ("true", "false")),
    "hw_ephemeral_encryption": (0.1, ("true", "false")),
    "hw_sound_model": (0.1, ("virtio", "ich9")),
    "os_secure_boot": (0.1, ("required", "disabled")),
    "hw_cpu_thread_policy": (0.1, ("isolate", "require")),
    "hw_maxphysaddr_mode": (0.1, ("passthrough", "emulate")),
}


class Case(NamedTuple):
    """A server, and the options of nova's scheduler."""

    flavor: test_flavor.Case
    zone: str | None
    project: str
    disk_format: str
    options: request.SchedulerOptions

    def to_dict(self) -> dict[str, Any]:
        names = (*request.FILTERS, "max_placement_results", "owner")
        return {
            **self.flavor.to_dict(),
            "zone": self.zone,
            "project": self.project,
            "disk_format": self.disk_format,
            "filters": {name: getattr(self.options, name) for name in names},
            "aggregates": AGGREGATES,
        }

    def request(self) -> request.NovaRequest:
        spec = request.ServerSpec(
            self.flavor.flavor,
            "f",
            image=self.flavor.image,
            disk_format=self.disk_format,
            from_volume=self.flavor.volume,
            availability_zone=self.zone,
            project_id=self.project,
        )
        aggregates = [
            HostAggregate(str(number), uuid, uuid, metadata=metadata)
            for number, (uuid, metadata) in enumerate(AGGREGATES.items())
        ]
        return request.request_to_placement(spec, aggregates, self.options)


def cases(rng: random.Random) -> Iterator[Case]:
    for flavor in test_flavor.cases(rng):
        specs = {**flavor.flavor.extra_specs, **test_flavor.choose(rng, SPECS)}
        image = {**flavor.image, **test_flavor.choose(rng, IMAGE)}
        object.__setattr__(flavor.flavor, "extra_specs", specs)
        on = {
            name: rng.random() < 0.5
            for name in (*request.FILTERS, "owner")
            if name != "query_placement_for_routed_network_aggregates"
        }
        yield Case(
            flavor._replace(image=image),
            rng.choice((None, None, "az1", "az2", "moon")),
            rng.choice(("acme", "other", "third")),
            rng.choice(("qcow2", "raw", "bogus")),
            request.SchedulerOptions(max_placement_results=rng.choice((50, 1000)), **on),
        )


def normalized(pairs: list[tuple[str, str]] | list[list[str]]) -> set[tuple[str, frozenset[str]]]:
    """Parameters independent of the order of parameters and of the items of each value."""
    found = set()
    for name, value in pairs:
        sign = "!" if name.startswith("member_of") and value.startswith("!") else ""
        items = value.removeprefix("!" if sign else "").removeprefix("in:").split(",")
        found.add((name + sign, frozenset(items)))
    return found


@pytest.fixture(scope="module")
def lab() -> place.Place:
    """A lab with nova's code; no service needs to run."""
    found = place.find()
    lifecycle.provide(found)
    return found


def test_the_query_equals_that_of_nova(lab: place.Place) -> None:
    sample = list(itertools.islice(cases(random.Random(9)), MANY))
    compared = refused = 0
    for case, result in zip(sample, test_flavor.run_nova(lab, sample), strict=True):
        theirs = result["request"]
        try:
            ours = query.candidate_pairs(case.request().query)
        except errors.InvalidInput as error:
            # Placement refuses some queries that nova sends; a device profile needs Cyborg.
            if "refused" not in theirs:
                text = str(error)
                assert "Placement refuses" in text or "requests no" in text or "Cyborg" in text, (
                    case.to_dict(),
                    text,
                    theirs,
                )
            refused += 1
            continue
        assert "refused" not in theirs, (json.dumps(case.to_dict()), theirs)
        # The policy "none" is the default.
        kept = [pair for pair in theirs if list(pair) != ["group_policy", "none"]]
        mine = [pair for pair in ours if pair != ("group_policy", "none")]
        assert normalized(mine) == normalized(kept), json.dumps(case.to_dict())
        compared += 1
    assert compared > MANY / 5
    assert refused
