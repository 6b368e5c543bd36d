# SPDX-License-Identifier: Apache-2.0
"""Small random clouds and queries, dense enough that rules interact.

All choices come from a ``random.Random``, seeded or controlled by hypothesis.
"""

from __future__ import annotations

import dataclasses
import random
import urllib.parse
import uuid

from osc_placement import microversion
from osc_placement.client import query as queries
from osc_placement.engine import record, standard, state
from osc_placement.model import candidate, inventory

CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_X")
TRAITS = ("CUSTOM_T1", "CUSTOM_T2", "CUSTOM_T3", "HW_NUMA_ROOT")
UNKNOWN = "00000000-0000-4000-8000-0000000000ff"
AGGREGATES = tuple(str(uuid.UUID(int=0xA0 + n, version=4)) for n in range(3))


def draw_state(draw: random.Random) -> state.CloudState:
    """A few trees; some share resources, some are partly used."""
    providers: dict[str, record.ProviderRecord] = {}
    plain = draw.random() < 0.5
    for number in range(draw.randint(1, 4)):
        sharing = number > 0 and draw.random() < 0.4
        _add_tree(draw, providers, number, sharing)
    if plain:
        for provider in providers.values():
            providers[provider.uuid] = dataclasses.replace(
                provider, inventories=_plain(provider.inventories)
            )
    base = state.CloudState()
    base.apply(
        record.Changes(
            providers,
            traits={name: 0.0 for name in TRAITS if name.startswith("CUSTOM_")},
            resource_classes={name: 0.0 for name in CLASSES if name.startswith("CUSTOM_")},
        )
    )
    base.apply(record.Changes(consumers=_draw_consumers(draw, base)))
    return base


def _plain(inventories: inventory.Inventories) -> inventory.Inventories:
    """Enough capacity for most requests, so that other rules decide."""
    return {name: inventory.Inventory(offer.total + 4) for name, offer in inventories.items()}


def _uuid(draw: random.Random) -> str:
    return str(uuid.UUID(int=draw.getrandbits(128), version=4))


def _add_tree(
    draw: random.Random, providers: dict[str, record.ProviderRecord], number: int, sharing: bool
) -> None:
    root = _draw_provider(draw, f"p{number}", None, sharing)
    tree = [root]
    if not sharing or draw.random() < 0.1:
        for child in range(draw.choice((0, 0, 1, 2, 3, 4))):
            parent = draw.choice(tree)
            shares = draw.random() < 0.04
            tree.append(_draw_provider(draw, f"{parent.name}.{child}", parent, shares))
    providers.update((provider.uuid, provider) for provider in tree)


def _draw_provider(
    draw: random.Random, name: str, parent: record.ProviderRecord | None, sharing: bool
) -> record.ProviderRecord:
    own = _uuid(draw)
    traits = [trait for trait in TRAITS if draw.random() < 0.25]
    classes = [name for name in CLASSES if draw.random() < (0.35 if sharing else 0.5)]
    return record.ProviderRecord(
        own,
        name,
        root_uuid=parent.root_uuid if parent else own,
        parent_uuid=parent.uuid if parent else None,
        inventories={name: _draw_inventory(draw) for name in classes},
        traits=frozenset([*traits, standard.SHARING_TRAIT] if sharing else traits),
        aggregates=tuple(name for name in AGGREGATES if draw.random() < (0.5 if sharing else 0.25)),
    )


def _draw_inventory(draw: random.Random) -> inventory.Inventory:
    total = draw.choice((2, 4, 4, 8, 8, 16))
    return inventory.Inventory(
        total,
        reserved=draw.choice((0, 0, 0, 0, 1, total)),
        min_unit=draw.choice((1, 1, 1, 1, 2)),
        max_unit=draw.choice((total, total, 2, 3, 1000)),
        step_size=draw.choice((1, 1, 1, 1, 2)),
        allocation_ratio=draw.choice((1.0, 1.0, 1.5, 0.5, 4.0)),
    )


def _draw_consumers(
    draw: random.Random, base: state.CloudState
) -> dict[str, record.ConsumerRecord | None]:
    consumers: dict[str, record.ConsumerRecord | None] = {}
    for provider in base.providers.values():
        amounts = {
            name: amount
            for name, offer in provider.inventories.items()
            if draw.random() < 0.25
            and offer.suits_units(amount := draw.randint(1, 4))
            and offer.has_room(0, amount)
        }
        if amounts:
            own = _uuid(draw)
            consumers[own] = record.ConsumerRecord(own, 1, "p", "u", {provider.uuid: amounts})
    return consumers


def draw_version(draw: random.Random) -> microversion.Microversion:
    """A microversion with candidates; the latest ones are more frequent."""
    return microversion.Microversion(1, draw.choice((*range(10, 40), *range(25, 40), 39, 39, 39)))


def draw_query(
    draw: random.Random, base: state.CloudState, version: microversion.Microversion
) -> candidate.CandidateQuery:
    """A query that ``version`` supports, on the content of ``base``."""
    return _Query(draw, base, version, draw.choice((0.3, 1.0, 1.0, 2.5))).draw_whole()


@dataclasses.dataclass
class _Query:
    draw: random.Random
    base: state.CloudState
    version: microversion.Microversion
    density: float

    def takes(self, feature: str, share: float) -> bool:
        """Whether to use a feature: with probability ``share``, if the version supports it."""
        is_drawn = self.draw.random() < share * self.density
        return is_drawn and microversion.supports(self.version, feature)

    def knows(self, feature: str) -> bool:
        return microversion.supports(self.version, feature)

    def draw_whole(self) -> candidate.CandidateQuery:
        draw = self.draw
        suffixes = self._draw_suffixes()
        groups = [self._draw_group(suffix) for suffix in suffixes]
        same_subtree: tuple[frozenset[str], ...] = ()
        named = [suffix for suffix in suffixes if suffix]
        if named and self.takes("candidate same_subtree", 0.4):
            bare = draw.choice(([], [], ["_NONE"], ["_NONE", "_NIL"]))
            groups += [self._draw_group(suffix, resources=False) for suffix in bare]
            named += bare
            same_subtree = tuple(
                frozenset({*draw.sample(named, draw.randint(1, len(named))), *bare, named[-1]})
                for _ in range(draw.choice((1, 1, 2)))
            )
        required, forbidden = frozenset[str](), frozenset[str]()
        if self.takes("candidate root_required", 0.2):
            chosen = frozenset({draw.choice(TRAITS)})
            required, forbidden = (
                (chosen, forbidden) if draw.random() < 0.5 else (forbidden, chosen)
            )
        return candidate.CandidateQuery(
            tuple(groups),
            isolate=bool(named) and draw.random() < 0.5,
            same_subtree=same_subtree,
            root_required=required,
            root_forbidden=forbidden,
            nested=self.knows("nested candidates"),
        )

    def _draw_suffixes(self) -> list[str]:
        if not self.knows("granular groups"):
            return [""]
        names = ["_A", "_B", "_C"] if self.knows("string suffixes") else ["1", "2", "3"]
        return self.draw.choice(
            ([""], ["", names[0]], names[:1], names[:2], ["", *names[:2]], names)
        )

    def _draw_group(self, suffix: str, resources: bool = True) -> candidate.RequestGroup:
        draw = self.draw
        classes = draw.sample(CLASSES, draw.choice((1, 1, 2, 3) if not suffix else (1, 1, 1, 2)))
        required = self._draw_required()
        if not resources and draw.random() < 0.7:
            required = (frozenset({draw.choice(TRAITS)}),)
        group = candidate.RequestGroup(
            suffix,
            {name: draw.choice((1, 1, 1, 2, 2, 3, 4)) for name in classes} if resources else {},
            required=required,
            forbidden=self._draw_forbidden(required),
            member_of=self._draw_member_of(),
            forbidden_aggregates=(
                frozenset(draw.sample(AGGREGATES, draw.randint(1, 2)))
                if self.takes("forbidden aggregates", 0.15)
                else frozenset()
            ),
            in_tree=(
                draw.choice([*self.base.providers, UNKNOWN])
                if self.takes("candidate in_tree", 0.12)
                else None
            ),
        )
        if group == candidate.RequestGroup(suffix):
            return dataclasses.replace(group, required=(frozenset({draw.choice(TRAITS)}),))
        return group

    def _draw_forbidden(self, required: tuple[frozenset[str], ...]) -> frozenset[str]:
        is_drawn = frozenset[str]().union(*required)
        free = [name for name in (*TRAITS, standard.SHARING_TRAIT) if name not in is_drawn]
        if not free or not self.takes("forbidden traits", 0.15):
            return frozenset()
        return frozenset({self.draw.choice(free)})

    def _draw_required(self) -> tuple[frozenset[str], ...]:
        draw = self.draw
        if not self.takes("candidate required traits", 0.3):
            return ()
        if self.knows("any traits") and draw.random() < 0.5:
            return tuple(
                frozenset(draw.sample(TRAITS, draw.randint(1, 3)))
                for _ in range(draw.randint(1, 2))
            )
        return tuple(frozenset({name}) for name in draw.sample(TRAITS, draw.choice((1, 1, 2))))

    def _draw_member_of(self) -> tuple[frozenset[str], ...]:
        draw = self.draw
        if not self.takes("candidate member_of", 0.2):
            return ()
        count = draw.randint(1, 2) if self.knows("member_of repeated") else 1
        return tuple(frozenset(draw.sample(AGGREGATES, draw.randint(1, 2))) for _ in range(count))


def query_string(query: candidate.CandidateQuery) -> str:
    """The query as a query string; a policy for one group too, as not every client sends it."""
    pairs = queries.candidate_pairs(query)
    if any(group.suffix for group in query.groups) and "group_policy" not in dict(pairs):
        pairs.append(("group_policy", "isolate" if query.isolate else "none"))
    return urllib.parse.urlencode(pairs)
