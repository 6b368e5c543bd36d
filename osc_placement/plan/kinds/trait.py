"""Changes of the cloud's list of traits: whether a custom trait exists."""

from __future__ import annotations

from osc_placement.plan import change
from osc_placement.plan.kinds import base, memberships


class Existence(memberships.Membership):
    """``{trait: whether it exists}``, of one trait."""


class TraitExistence(memberships.MembershipType[Existence]):
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
        if write.after.present[name]:
            services.client.create_trait(name)
        else:
            services.client.delete_trait(name)
        return change.Observed(None, write.after)


def creation(name: str, reason: str, stage: int = -1) -> change.Change:
    """The change that creates a custom trait."""
    before, after = Existence({name: False}), Existence({name: True})
    return change.Change(
        TYPE.name, change.Subject(name, name), before, after, reason=reason, stage=stage
    )


TYPE = TraitExistence()
