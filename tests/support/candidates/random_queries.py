# SPDX-License-Identifier: Apache-2.0
"""Small random queries, dense enough that rules interact; for ``testing.random_cloud``.

All choices come from a ``random.Random``, seeded or controlled by hypothesis.
"""

from __future__ import annotations

import dataclasses
import random
import urllib.parse

from osc_placement import microversion
from osc_placement.client import query as queries
from osc_placement.engine import standard, state
from osc_placement.model import candidate
from osc_placement.testing import random_clouds, uuid_of
from osc_placement.testing.random_clouds import CLASSES, TRAITS

UNKNOWN = "00000000-0000-4000-8000-0000000000ff"
AGGREGATES = tuple(map(uuid_of, random_clouds.AGGREGATES))


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
