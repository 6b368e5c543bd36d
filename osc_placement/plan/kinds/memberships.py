# SPDX-License-Identifier: Apache-2.0
"""Changes of the traits and of the aggregates of a provider: names that are present or not."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Self, TypeVar

from osc_placement.client import api_errors
from osc_placement.plan import change, forms
from osc_placement.plan.kinds import base


@dataclasses.dataclass(frozen=True, slots=True)
class Membership(forms.Single):
    """``{name: whether it is present}`` of the names concerned."""

    present: Mapping[str, bool]

    @classmethod
    def of(cls, names: Iterable[str]) -> Self:
        """The state in which these names are present."""
        return cls(dict.fromkeys(names, True))

    def names(self) -> list[str]:
        """The names that are present."""
        return [name for name, is_present in self.present.items() if is_present]


class Traits(Membership):
    """The traits of a provider."""


class Aggregates(Membership):
    """The aggregates of a provider, by UUID."""


M = TypeVar("M", bound=Membership)


class MembershipType(base.ChangeType[M]):
    """Only the named members change; all others stay."""

    def read_to_undo(
        self, services: base.Services, subject: change.Subject, after: M
    ) -> change.Observed[M]:
        """A deleted provider has no members, so there is nothing left to remove."""
        try:
            return self.read(services, subject, after)
        except api_errors.NotFound:
            if after.names():
                raise
            return change.Observed(None, self.state({}))

    def facts(self, before: M, after: M, names: change.Names = base.NO_NAMES) -> list[base.Fact]:
        return [
            base.Fact(
                name, before.present.get(name, False), after.present.get(name, False), name, name
            )
            for name in dict.fromkeys([*after.present, *before.present])
        ]

    def removes(self, before: M, after: M) -> int:
        removed = sum(after.present.get(name) is False for name in before.names())
        added = sum(not before.present.get(name) for name in after.names())
        return max(removed - added, 0)

    def describe_change(
        self, before: M, after: M, names: change.Names = base.NO_NAMES
    ) -> list[str]:
        return [f"{'+' if has else '-'}{name}" for name, has in after.present.items()]

    def select(self, present: M, after: M) -> M:
        return self.state({name: present.present.get(name, False) for name in after.present})


class TraitsType(MembershipType[Traits]):
    """Written under the provider's generation."""

    name = "traits"
    state = Traits
    unit = "traits of providers"

    def read(
        self, services: base.Services, subject: change.Subject, after: Traits
    ) -> change.Observed[Traits]:
        present = services.client.list_provider_traits(subject.uuid)
        return observed_traits(present.generation, present.traits)

    def write(self, services: base.Services, write: base.Write[Traits]) -> change.Observed[Traits]:
        names, generation = _merged(write), write.observed.generation or 0
        present = services.client.replace_provider_traits(write.subject.uuid, generation, names)
        return observed_traits(present.generation, present.traits)


class AggregatesType(MembershipType[Aggregates]):
    """Written under the provider's generation."""

    name = "aggregates"
    state = Aggregates
    unit = "aggregate memberships"

    def read(
        self, services: base.Services, subject: change.Subject, after: Aggregates
    ) -> change.Observed[Aggregates]:
        services.client.require_feature("aggregate generation", "changing aggregates safely")
        present = services.client.list_aggregates(subject.uuid)
        return change.Observed(present.generation, Aggregates.of(present.aggregates))

    def write(
        self, services: base.Services, write: base.Write[Aggregates]
    ) -> change.Observed[Aggregates]:
        uuids, generation = _merged(write), write.observed.generation
        present = services.client.replace_aggregates(write.subject.uuid, generation, uuids)
        return change.Observed(present.generation, Aggregates.of(present.aggregates))


def observed_traits(generation: int, names: Iterable[str]) -> change.Observed[Traits]:
    """All traits of a provider, that planning has read."""
    return change.Observed(generation, Traits.of(names))


def _merged(write: base.Write[M]) -> list[str]:
    """All members after the change: those that stay, in their order, then the new ones."""
    present, after = write.observed.state.names(), write.after
    kept = [name for name in present if after.present.get(name, True)]
    return kept + [name for name in after.names() if name not in present]


TRAITS = TraitsType()
AGGREGATES = AggregatesType()


class Existence(Membership):
    """``{trait: whether it exists}``, of one trait."""


class TraitExistence(MembershipType[Existence]):
    """The subject's name and UUID are the trait's name. No generation guards the write."""

    name = "trait"
    state = Existence
    counted = False
    stops_run = "a trait that other changes need could not be created"
    listed_first = True
    has_uuid = False
    unit = "traits"

    def read(
        self, services: base.Services, subject: change.Subject, after: Existence
    ) -> change.Observed[Existence]:
        name = subject.uuid
        return change.Observed(None, Existence({name: services.client.trait_exists(name)}))

    def write(
        self, services: base.Services, write: base.Write[Existence]
    ) -> change.Observed[Existence]:
        name = write.subject.uuid
        if write.after.present.get(name):
            services.client.create_trait(name)
        else:
            services.client.delete_trait(name)
        return change.Observed(None, write.after)


def creation(name: str, reason: str, stage: int = -1) -> change.Change[Any]:
    """The change that creates a custom trait."""
    before, after = Existence({name: False}), Existence({name: True})
    return change.Change(
        TRAIT_EXISTENCE.name, change.Subject(name, name), before, after, reason=reason, stage=stage
    )


TRAIT_EXISTENCE = TraitExistence()
