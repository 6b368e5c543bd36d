"""A consumer's allocations together with its ports' binding profiles: one kind of change.

Neutron is written first, as nova does it: a port that tells of a provider is easily told
otherwise, allocations are not easily taken away again. When Placement refuses, the ports are
put back. A kill between the two leaves ports that name providers from which nothing is
allocated: whoever plans anew takes them at their word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from osc_placement.client import api, errors, network
from osc_placement.model import network as model
from osc_placement.workflows import change, kind

_PORT = "port "
_GONE = "its port {uuid} is gone"


def facts(allocations: Mapping[str, Mapping[str, str]]) -> dict[str, change.Value]:
    """Of ``{port uuid: {group id: provider uuid}}``."""
    return {
        f"{_PORT}{uuid}:{group}": provider
        for uuid, groups in sorted(allocations.items())
        for group, provider in sorted(groups.items())
    }


def kinds(asked: network.Network | None) -> Mapping[str, kind.Kind]:
    """All kinds of change, with the one that needs neutron where that can be asked."""
    if asked is None:
        return kind.KINDS
    plain = kind.KINDS[change.ALLOCATIONS]

    def read(client: api.Client, item: change.Change) -> kind.Observed:
        seen = plain.read(client, item)
        ports = [_read(asked, uuid) for uuid in _allocations(item.after)]
        told = facts({port.uuid: port.allocation for port in ports})
        return kind.Observed(seen.generation, {**seen.facts, **told}, ports)

    def write(client: api.Client, item: change.Change, observed: kind.Observed) -> kind.Observed:
        return _write(asked, plain, client, item, observed)

    return {**kind.KINDS, change.BOUND: kind.Kind(read, write, in_parts=True)}


def _write(
    asked: network.Network,
    plain: kind.Kind,
    client: api.Client,
    item: change.Change,
    observed: kind.Observed,
) -> kind.Observed:
    """Ports, then allocations; ports again when these are refused."""
    wanted = _allocations(item.after)
    written: list[model.Port] = []
    before: dict[str, Mapping[str, str]] = {port.uuid: port.allocation for port in observed.whole}
    try:
        for port in observed.whole:
            if port.allocation != wanted[port.uuid]:
                written.append(network.bind(asked, port, wanted[port.uuid]))
        return plain.write(client, item, observed)
    except (errors.AnswerLost, errors.UnexpectedAnswer):
        # Perhaps it was carried out: whoever looks again will know.
        raise
    except errors.PlacementError as refusal:
        _put_back(asked, written, before, refusal)
        raise


def _put_back(
    asked: network.Network,
    written: Iterable[model.Port],
    before: Mapping[str, Mapping[str, str]],
    refusal: errors.PlacementError,
) -> None:
    for port in written:
        try:
            network.bind(asked, port, before[port.uuid])
        except errors.PlacementError as error:
            raise errors.ApiError(
                0,
                f"Placement refused ({refusal}), and port {port.uuid} could not be put back"
                f" ({error}): its binding profile names a provider without allocation",
            ) from error


def _read(asked: network.Network, uuid: str) -> model.Port:
    found = network.port(asked, uuid)
    if found is None:
        raise errors.NotFound(404, _GONE.format(uuid=uuid))
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
