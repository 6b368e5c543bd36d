# SPDX-License-Identifier: Apache-2.0
"""The size and the API versions of a Placement, and checks before an upgrade."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator

from osc_placement import microversion
from osc_placement.client import api, responses
from osc_placement.model import allocation, name
from osc_placement.model.name import counted
from osc_placement.workflows.cloud import problem
from osc_placement.workflows.cloud.problem import ProblemCode

#: The version that nova needs since Ussuri; below it nova-status reports a failure.
NOVA_NEEDS = microversion.Microversion(1, 36)

#: Checks that need more than the API, and the tools that do them.
NOT_CHECKED = (
    "providers without a root, tables to migrate: placement-status upgrade check",
    "cells, services, the version of every nova-compute: nova-status upgrade check",
    "incomplete consumers, where placement.conf names another placeholder than zeros",
    "consumers without a type: the API counts them by project only",
    "host aggregates of nova without a mirror in Placement",
)


PLACEMENT_TOO_OLD = problem.error("placement-too-old", "Nova needs a newer Placement.")
PLACEMENT_OLDER_THAN_CLIENT = problem.warning(
    "placement-older-than-client", "Some commands need a newer Placement."
)
CONSUMER_WITHOUT_OWNER = problem.warning(
    "consumer-without-owner", "Consumers of an old release have no project and user."
)


class CheckVerdict(enum.IntEnum):
    """The result of a check; the worst one is the exit code, as with placement-status."""

    SUCCESS = 0
    WARNING = 1
    FAILURE = 2


@dataclasses.dataclass(frozen=True, slots=True)
class UpgradeCheck:
    """One check; ``code`` names the problem, ``details`` say what to do if it did not succeed."""

    code: ProblemCode
    name: str
    verdict: CheckVerdict
    details: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class CloudStatus:
    """Versions and numbers of a Placement; a number is None if the version lacks the request.

    ``lacking`` names the features that the version in use does not have. ``incomplete`` is
    the usage of the placeholder project; None if it was not read.
    """

    target: str
    server: tuple[microversion.Microversion, microversion.Microversion]
    in_use: microversion.Microversion
    pinned: bool
    providers: int
    trees: int | None
    custom_traits: int | None
    custom_resource_classes: int | None
    lacking: tuple[str, ...]
    incomplete: responses.Usage | None = None


def observe_status(client: api.Client, *, check: bool = False) -> CloudStatus:
    """Read the numbers and, for ``checks``, the usage of incomplete consumers.

    Requests: three listings and the version document; one more with ``check``.
    Errors: PlacementError; with ``check`` also for a snapshot without owners.
    """
    version = client.microversion
    providers = client.list_providers()
    roots = {item.root_uuid for item in providers}
    return CloudStatus(
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
        incomplete=_incomplete(client) if check else None,
    )


def checks(status: CloudStatus) -> Iterator[UpgradeCheck]:
    """The checks before an upgrade. Pure."""
    highest = status.server[1]
    for code, title, needs, otherwise in (
        (
            PLACEMENT_TOO_OLD,
            "nova can use this Placement",
            NOVA_NEEDS,
            CheckVerdict.FAILURE,
        ),
        (
            PLACEMENT_OLDER_THAN_CLIENT,
            "this client can use all it knows",
            microversion.MAXIMUM,
            CheckVerdict.WARNING,
        ),
    ):
        details = f"it has {highest} and needs {needs}: upgrade Placement"
        yield (
            UpgradeCheck(code, title, CheckVerdict.SUCCESS)
            if highest >= needs
            else UpgradeCheck(code, title, otherwise, details)
        )
    without_owner = _without_owner(status.incomplete)
    yield UpgradeCheck(
        CONSUMER_WITHOUT_OWNER,
        "every consumer has a project and a user",
        CheckVerdict.WARNING if without_owner else CheckVerdict.SUCCESS,
        without_owner,
    )


def _without_owner(incomplete: responses.Usage | None) -> str:
    """What to do about the usage of the placeholder project; empty without such a usage."""
    if incomplete is None:
        return "not checked: it needs 1.9"
    if not incomplete.resources and not incomplete.consumer_count:
        return ""
    count = incomplete.consumer_count
    consumers = "consumers" if count is None else counted(count, "consumer")
    verb = "has" if count == 1 else "have"
    return (
        f"{consumers} {verb} the placeholder project: 'openstack placement migration"
        " run' sets the project of servers"
    )


def _incomplete(client: api.Client) -> responses.Usage | None:
    if not microversion.supports(client.microversion, "usages by project"):
        return None
    client.require_owners()
    return client.show_total_usage(allocation.PLACEHOLDER)


def _traits(client: api.Client) -> int | None:
    if not microversion.supports(client.microversion, "traits"):
        return None
    return len(client.list_traits(name=f"startswith:{name.CUSTOM_PREFIX}"))


def _classes(client: api.Client) -> int | None:
    if not microversion.supports(client.microversion, "resource classes"):
        return None
    return sum(item.startswith(name.CUSTOM_PREFIX) for item in client.list_resource_classes())
