# SPDX-License-Identifier: Apache-2.0
"""Yes, no or unknown: how the rules of a verdict are joined. Pure.

A no from any rule is no. Without one, a rule whose fact is not known makes the answer unknown.
Only what is left is yes.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping

from osc_placement.errors import NotKnown as NotKnown


class Answer(enum.StrEnum):
    """The answer to a question about a cloud."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """What rules say: ``refused`` is why nova refuses, ``unknown`` which facts are not known.

    Each is ``rule: sentence``, or the sentence alone if the rule's name says nothing more.
    """

    refused: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def answer(self) -> Answer:
        """The answer of all rules together."""
        if self.refused:
            return Answer.NO
        return Answer.UNKNOWN if self.unknown else Answer.YES

    @property
    def text(self) -> str:
        """The reasons for an answer that is not yes."""
        return "; ".join(self.refused or self.unknown)

    def __add__(self, other: Verdict) -> Verdict:
        return Verdict(
            tuple(dict.fromkeys((*self.refused, *other.refused))),
            tuple(dict.fromkeys((*self.unknown, *other.unknown))),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Caveats:
    """The caveats of an answer, each line with its reason and what would help.

    ``doubts`` are facts that are not known and can turn the answer; ``notes`` are about how only;
    ``assumed`` is what nova's requests were assumed to be. ``not_counted`` is ``{host: why}`` for
    the hosts that Placement would use, and that take no server.
    """

    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    not_counted: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __add__(self, other: Caveats) -> Caveats:
        return joined((self, other))


def joined(caveats: Iterable[Caveats]) -> Caveats:
    """All together, each line once, in their order."""
    doubts, notes, assumed = dict[str, None](), dict[str, None](), dict[str, None]()
    not_counted: dict[str, str] = {}
    for single in caveats:
        doubts |= dict.fromkeys(single.doubts)
        notes |= dict.fromkeys(single.notes)
        assumed |= dict.fromkeys(single.assumed)
        not_counted |= single.not_counted
    return Caveats(tuple(doubts), tuple(notes), tuple(assumed), not_counted)


def among(verdicts: Iterable[Verdict]) -> Answer:
    """Whether nova finds a host: yes if one is certain, no if none is possible."""
    answers = {verdict.answer for verdict in verdicts}
    return next((answer for answer in (Answer.YES, Answer.UNKNOWN) if answer in answers), Answer.NO)
