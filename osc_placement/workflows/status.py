"""What a Placement is, how much it holds, and what it and this client can do together."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator

from osc_placement import microversion
from osc_placement.client import api
from osc_placement.model import name

#: What nova asks for since Ussuri; below it nova-status reports a failure.
NOVA_NEEDS = microversion.Microversion(1, 36)


class Verdict(enum.IntEnum):
    """How a check ended; the worst one is the exit code, as with placement-status."""

    SUCCESS = 0
    WARNING = 1
    FAILURE = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """One check, with what to do when it did not succeed."""

    name: str
    verdict: Verdict
    details: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Status:
    """``lacking`` names the features that the version in use does not have."""

    target: str
    server: tuple[microversion.Microversion, microversion.Microversion]
    in_use: microversion.Microversion
    pinned: bool
    providers: int
    trees: int | None
    custom_traits: int | None
    custom_resource_classes: int | None
    lacking: tuple[str, ...]


def observe_status(client: api.Client) -> Status:
    """Ask how much there is. Cost: three listings, and the version document."""
    version = client.microversion
    providers = client.list_providers()
    roots = {item.root_uuid for item in providers}
    return Status(
        target=client.target,
        server=client.transport.versions(),
        in_use=version,
        pinned=client.pinned,
        providers=len(providers),
        trees=len(roots) if microversion.supports(version, "nested providers") else None,
        custom_traits=_traits(client),
        custom_resource_classes=_classes(client),
        lacking=tuple(
            feature for feature, needs in microversion.FEATURES.items() if needs > version
        ),
    )


def checks(status: Status) -> Iterator[Check]:
    """What an operator should know before an upgrade. Pure."""
    highest = status.server[1]
    yield _least("nova can use this Placement", highest, NOVA_NEEDS, Verdict.FAILURE)
    yield _least("this client can use all it knows", highest, microversion.MAXIMUM, Verdict.WARNING)


def _least(
    what: str,
    highest: microversion.Microversion,
    needs: microversion.Microversion,
    otherwise: Verdict,
) -> Check:
    if highest >= needs:
        return Check(what, Verdict.SUCCESS)
    return Check(what, otherwise, f"it has {highest} and {needs} is needed: upgrade Placement")


def _traits(client: api.Client) -> int | None:
    if not microversion.supports(client.microversion, "traits"):
        return None
    return len(client.list_traits(name=f"startswith:{name.CUSTOM_PREFIX}"))


def _classes(client: api.Client) -> int | None:
    if not microversion.supports(client.microversion, "resource classes"):
        return None
    return sum(item.startswith(name.CUSTOM_PREFIX) for item in client.list_resource_classes())
