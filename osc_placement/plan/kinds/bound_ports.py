"""A consumer's allocations together with its ports' binding profiles: one kind of change.

Neutron is written first, as nova does it: a port that tells of a provider is easily told
otherwise, allocations are not easily taken away again. When Placement refuses, the ports are
put back. A kill between the two leaves ports that name providers from which nothing is
allocated: whoever plans anew takes them at their word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from osc_placement import errors
from osc_placement.client import api, api_errors
from osc_placement.neutron import api as neutron_api, port as model
from osc_placement.plan import change
from osc_placement.plan.kinds import base, registry

_PORT = "port "
_GONE = "its port {uuid} is gone"


def facts(allocations: Mapping[str, Mapping[str, str]]) -> dict[str, change.Value]:
    """Of ``{port uuid: {group id: provider uuid}}``."""
    return {
        f"{_PORT}{uuid}:{group}": provider
        for uuid, groups in sorted(allocations.items())
        for group, provider in sorted(groups.items())
    }


def kinds(asked: neutron_api.Neutron | None) -> Mapping[str, base.ChangeType]:
    """All kinds of change, with the one that needs neutron where that can be asked."""
    if asked is None:
        return registry.CHANGE_TYPES
    plain = registry.CHANGE_TYPES[change.ALLOCATIONS]

    def read(client: api.Client, item: change.Change) -> change.Observed:
        seen = plain.read(client, item)
        ports = [_read(asked, uuid) for uuid in _allocations(item.after)]
        told = facts({port.uuid: port.allocation for port in ports})
        return change.Observed(seen.generation, {**seen.facts, **told}, ports)

    def write(
        client: api.Client, item: change.Change, observed: change.Observed
    ) -> change.Observed:
        return _write(asked, plain, client, item, observed)

    return {**registry.CHANGE_TYPES, change.BOUND: base.ChangeType(read, write, in_parts=True)}


def _write(
    asked: neutron_api.Neutron,
    plain: base.ChangeType,
    client: api.Client,
    item: change.Change,
    observed: change.Observed,
) -> change.Observed:
    """Ports, then allocations; ports again when these are refused."""
    wanted = _allocations(item.after)
    written: list[model.Port] = []
    before: dict[str, Mapping[str, str]] = {port.uuid: port.allocation for port in observed.whole}
    try:
        for port in observed.whole:
            if port.allocation != wanted[port.uuid]:
                written.append(neutron_api.bind(asked, port, wanted[port.uuid]))
        return plain.write(client, item, observed)
    except (api_errors.OutcomeUnknown, api_errors.UnexpectedResponse):
        # Perhaps it was carried out: whoever looks again will know.
        raise
    except errors.PlacementError as refusal:
        _put_back(asked, written, before, refusal)
        raise


def _put_back(
    asked: neutron_api.Neutron,
    written: Iterable[model.Port],
    before: Mapping[str, Mapping[str, str]],
    refusal: errors.PlacementError,
) -> None:
    for port in written:
        try:
            neutron_api.bind(asked, port, before[port.uuid])
        except errors.PlacementError as error:
            raise api_errors.ApiError(
                0,
                f"Placement refused ({refusal}), and port {port.uuid} could not be put back"
                f" ({error}): its binding profile names a provider without allocation",
            ) from error


def _read(asked: neutron_api.Neutron, uuid: str) -> model.Port:
    found = neutron_api.port(asked, uuid)
    if found is None:
        raise api_errors.NotFound(404, _GONE.format(uuid=uuid))
    return found


def _allocations(told: change.Facts) -> dict[str, dict[str, str]]:
    """``{port uuid: {group id: provider uuid}}`` that facts speak of."""
    found: dict[str, dict[str, str]] = {}
    for key, value in told.items():
        if key.startswith(_PORT):
            uuid, _, group = key.removeprefix(_PORT).partition(":")
            groups = found.setdefault(uuid, {})
            if value is not None:
                groups[group] = str(value)
    return found
