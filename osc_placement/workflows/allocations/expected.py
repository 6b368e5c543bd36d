"""What a server should have on its host: all the answers that there are. Pure.

A class that the root provider has is taken from there; one that only a sharing provider
has from that; what is left, and every granular group, from where Placement says that it may
come: one allocation candidates query restricted to the host's tree. Which of several
answers is true is known on the host alone: ``choice`` takes one.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from osc_placement import errors
from osc_placement.client import query, responses
from osc_placement.model import allocation
from osc_placement.model.candidate import CandidateQuery
from osc_placement.nova import flavor, values
from osc_placement.workflows.allocations import ports as allocations_ports, snapshot as pictures

_PCI = "which PCI devices it has (alias {aliases}) is known on its host alone"

#: Somebody changed what was observed after Placement was asked about it.
_UNASKED = errors.PlacementError("it changed while it was looked at")

#: More answers to one query than anybody would look at.
_LIMIT = 1000

#: ``{query key: the answer, or why there is none}``
Answers = Mapping[str, responses.Candidates | errors.PlacementError]


class Option(NamedTuple):
    """One answer: what a server has of which provider, and of it ``{port's group: provider}``."""

    allocations: allocation.Allocations
    ports: Mapping[str, str] = {}


@dataclasses.dataclass(frozen=True, slots=True)
class Expected:
    """What a server may have: ``options``, each all that it lacks, by their providers' names.

    ``why_none`` tells why there is no option. ``doubts`` are reasons why even a single one
    may not be all of the truth.
    """

    options: tuple[Option, ...] = ()
    why_none: str = ""
    doubts: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class _Split:
    """Where the resources of the group without suffix come from.

    ``here`` from the root; ``shared`` is ``{class: sharing providers that have it}``;
    ``rest`` from elsewhere in the tree, if from anywhere.
    """

    here: dict[str, int]
    shared: dict[str, list[str]]
    rest: dict[str, int]


def request_of(server: values.Server) -> flavor.ServerRequest:
    """What the server's flavor and image ask for; nothing where its flavor is not known."""
    if server.flavor is None:
        return flavor.ServerRequest(unknown=("nova does not tell its flavor",))
    return flavor.request_of(
        server.flavor, server.image_properties, booted_from_volume=server.from_volume
    )


def demand_of(picture: pictures.CloudSnapshot, server: values.Server) -> flavor.ServerRequest:
    """What a server lacks: all of it, with what its ports ask for; or that of some ports alone."""
    groups = {
        suffix: group
        for port in allocations_ports.lacking(picture, server)
        for suffix, group in port.groups.items()
    }
    if picture.allocations.get(server.uuid):
        return flavor.ServerRequest(groups)
    asked = request_of(server)
    return dataclasses.replace(asked, groups={**asked.groups, **groups})


def needs_tree(picture: pictures.CloudSnapshot, server: values.Server, root: str) -> bool:
    """Whether the root and what shares with it do not answer alone."""
    asked = demand_of(picture, server)
    return not asked.unknown and (asked.is_granular or bool(_split(picture, root, asked).rest))


def query_of(
    picture: pictures.CloudSnapshot, server: values.Server, root: str
) -> tuple[str, CandidateQuery] | None:
    """What Placement is to be asked about a server on this root, with its key; None if nothing."""
    if not needs_tree(picture, server, root):
        return None
    asked = demand_of(picture, server)
    subtrees = [port.same_subtree for port in allocations_ports.lacking(picture, server)]
    split = _split(picture, root, asked)
    whole = asked.query(root)
    groups = [
        group if group.suffix else dataclasses.replace(group, resources=split.rest)
        for group in whole.groups
    ]
    kept = tuple(group for group in groups if group.resources)
    wanted = dataclasses.replace(
        whole, groups=kept, same_subtree=tuple(filter(None, subtrees)), limit=_LIMIT
    )
    return query.encode(query.candidate_pairs(wanted)), wanted


def expect(
    picture: pictures.CloudSnapshot, server: values.Server, root: str, answers: Answers
) -> Expected:
    """All that a server may have on the tree of ``root``; capacity is not looked at.

    ``picture`` holds the inventories of the root and of what shares with it, and of the whole
    tree where ``needs_tree``; ``answers`` hold those to ``query_of``.
    """
    asked = demand_of(picture, server)
    if asked.unknown:
        return Expected(why_none="; ".join(asked.unknown))
    unread = [uuid for uuid in _tree(picture, root) if uuid in picture.unread]
    if unread:
        why = picture.unread[unread[0]]
        return Expected(why_none=f"{name_of(picture, unread[0])} cannot be read: {why}")
    split = _split(picture, root, asked)
    told = _told(picture, server, root, answers)
    elsewhere = [] if isinstance(told, errors.PlacementError) else told
    if not elsewhere:
        return Expected(why_none=_why_none(picture, root, asked, split, told))
    options = [
        Option(_merged([{root: split.here}, shared, each.allocations]), each.ports)
        for shared in _shared(asked, split)
        for each in elsewhere
    ]
    return Expected(tuple(options), doubts=tuple(_doubts(picture, root, asked)))


def name_of(picture: pictures.CloudSnapshot, uuid: str) -> str:
    """What a provider is called."""
    known = picture.providers.get(uuid)
    return known.name if known else uuid


def _split(picture: pictures.CloudSnapshot, root: str, asked: flavor.ServerRequest) -> _Split:
    split = _Split({}, {}, {})
    wanted = asked.groups[""].resources if "" in asked.groups else {}
    for resource_class, amount in wanted.items():
        shares = [
            uuid
            for uuid in picture.sharing.get(root, ())
            if resource_class in picture.inventories.get(uuid, {})
        ]
        if resource_class in picture.inventories.get(root, {}):
            split.here[resource_class] = amount
        elif shares:
            split.shared[resource_class] = shares
        else:
            split.rest[resource_class] = amount
    return split


def _shared(asked: flavor.ServerRequest, split: _Split) -> Iterator[allocation.Allocations]:
    """Each way to take what is shared from one provider for each class."""
    for uuids in itertools.product(*split.shared.values()):
        yield _merged(
            {uuid: {resource_class: asked.groups[""].resources[resource_class]}}
            for resource_class, uuid in zip(split.shared, uuids, strict=True)
        )


def _told(
    picture: pictures.CloudSnapshot, server: values.Server, root: str, answers: Answers
) -> Sequence[Option] | errors.PlacementError:
    """What Placement answered, each different one once; one of nothing where it was not asked."""
    wanted = query_of(picture, server, root)
    if wanted is None:
        return [Option({})]
    found = answers.get(wanted[0], _UNASKED)
    if isinstance(found, errors.PlacementError):
        return found
    ports = {
        suffix: port.allocation.get(suffix)
        for port in allocations_ports.lacking(picture, server)
        for suffix in port.groups
    }
    # Which group of a flavor a resource is for does not show in allocations; a port's does.
    different = {
        repr((_sorted(each.allocations), sorted(each.ports.items()))): each
        for one in found.requests
        if (each := _option(one, ports)) is not None
    }
    # Placement answers in an order of its own, which may be another the next time.
    ordered = sorted(different.items(), key=lambda item: (_names(picture, item[1]), item[0]))
    return _as_ports_say([each for _, each in ordered], ports)


def _names(picture: pictures.CloudSnapshot, option: Option) -> list[str]:
    return sorted(name_of(picture, uuid) for uuid in option.allocations)


def _option(one: responses.AllocationRequest, ports: Mapping[str, str | None]) -> Option | None:
    """A candidate; None where it does not tell whose group is where (below 1.34)."""
    if not ports:
        return Option(one.allocations)
    if one.mappings is None:
        return None
    return Option(one.allocations, {suffix: one.mappings[suffix][0] for suffix in ports})


def _as_ports_say(options: list[Option], ports: Mapping[str, str | None]) -> list[Option]:
    """Those in which ports are where they say they are, if there are such."""
    said = {suffix: uuid for suffix, uuid in ports.items() if uuid}
    kept = [each for each in options if said.items() <= each.ports.items()]
    return kept or options


def _sorted(allocations: allocation.Allocations) -> list[tuple[str, list[tuple[str, int]]]]:
    return sorted((uuid, sorted(resources.items())) for uuid, resources in allocations.items())


def _merged(parts: Iterable[allocation.Allocations]) -> dict[str, dict[str, int]]:
    """The sum of allocations; providers of which nothing is taken are left out."""
    found: dict[str, dict[str, int]] = {}
    for part in parts:
        for uuid, resources in part.items():
            if resources:
                found[uuid] = allocation.add_resources(found.get(uuid, {}), resources)
    return found


def _tree(picture: pictures.CloudSnapshot, root: str) -> list[str]:
    return [item.uuid for item in picture.trees.get(root, ())]


def _why_none(
    picture: pictures.CloudSnapshot,
    root: str,
    asked: flavor.ServerRequest,
    split: _Split,
    told: object,
) -> str:
    """Why no candidate came back: there is no such class in the tree, or not enough of it."""
    known = [picture.inventories.get(uuid, {}) for uuid in _tree(picture, root)]
    offered = {name for inventories in known for name in inventories}
    where = name_of(picture, root)
    grouped = (group.resources for suffix, group in asked.groups.items() if suffix)
    wanted = allocation.add_resources(split.rest, *grouped)
    absent = [name for name in wanted if name not in offered]
    if absent:
        needs = ", ".join(f"{name} (it needs {wanted[name]})" for name in absent)
        return f"nothing in the tree of {where} has inventory of {needs}"
    if isinstance(told, errors.PlacementError):
        return f"Placement cannot tell where it fits: {told}"
    needs = ", ".join(
        f"{name} needs {amount}, {_free(picture, root, name)} free"
        for name, amount in wanted.items()
    )
    return f"no capacity in the tree of {where}: {needs}"


def _free(picture: pictures.CloudSnapshot, root: str, resource_class: str) -> int:
    """Of a class, over all of a tree."""
    return sum(
        max(found.capacity - picture.used.get(uuid, {}).get(resource_class, 0), 0)
        for uuid in _tree(picture, root)
        if (found := picture.inventories.get(uuid, {}).get(resource_class))
    )


def _doubts(
    picture: pictures.CloudSnapshot, root: str, asked: flavor.ServerRequest
) -> Iterator[str]:
    offered = {name for uuid in _tree(picture, root) for name in picture.inventories.get(uuid, {})}
    yield from dict.fromkeys(reason for name, reason in asked.undecided.items() if name in offered)
    if asked.pci_aliases and any(name.startswith("CUSTOM_PCI_") for name in offered):
        yield _PCI.format(aliases=", ".join(asked.pci_aliases))
