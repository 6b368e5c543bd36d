# SPDX-License-Identifier: Apache-2.0
"""No smaller change is left out: the changes of small nested clouds, found again by trying all.

The trees have NUMA nodes with different free amounts; the queries have alternative traits and
aggregates, of which some are forbidden. test_explain.py tests that each listed change is minimal.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence

import pytest

from osc_placement.engine import state
from osc_placement.model import candidate, constraint, inventory
from osc_placement.model.constraint import Constraint, Kind
from osc_placement.workflows.explain import changes
from osc_placement.workflows.explain.amounts import largest
from osc_placement.workflows.explain.changes import Action, SmallestChange, Step
from osc_placement.workflows.explain.relaxations import MOST_CONDITIONS, Relaxations
from tests.support.candidates import clouds, oracle

TRAITS = ("CUSTOM_T1", "CUSTOM_T2", "CUSTOM_T3")
AGGREGATES = tuple(f"00000000-0000-4000-8000-0000000000a{number}" for number in range(3))
CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB")
NODE_CLASSES = (CLASSES[:2], CLASSES[:2], CLASSES[:1], CLASSES[1:2], CLASSES)
QUERIES = 3
#: More than any query takes.
PLENTY = 1000

Amounts = tuple[int, ...]


def draw_state(draw: random.Random) -> state.CloudState:
    """One or two hosts with up to three NUMA nodes."""
    providers = []
    for number in range(draw.randint(1, 2)):
        root = f"h{number}"
        nodes = [f"{root}-n{node}" for node in range(draw.randint(0, 3))]
        offered = draw.choice((CLASSES[2:], CLASSES[2:], (), CLASSES)) if nodes else CLASSES
        providers.append(draw_provider(draw, root, "", offered))
        providers += [draw_provider(draw, it, root, draw.choice(NODE_CLASSES)) for it in nodes]
    return clouds.cloud(*providers)


def draw_provider(draw: random.Random, name: str, parent: str, classes: Sequence[str]) -> object:
    offers = {
        each: inventory.Inventory(
            draw.choice((1, 2, 3, 4, 8)),
            max_unit=draw.choice((PLENTY, PLENTY, PLENTY, 2, 3)),
            step_size=draw.choice((1, 1, 1, 2)),
            min_unit=draw.choice((1, 1, 1, 1, 2)),
        )
        for each in classes
    }
    traits = " ".join(trait for trait in TRAITS if draw.random() < 0.25)
    aggregates = " ".join(aggregate for aggregate in AGGREGATES if draw.random() < 0.3)
    return clouds.provider(name, parent, traits=traits, aggregates=aggregates, **offers)


def draw_query(draw: random.Random) -> candidate.CandidateQuery:
    def some(names: Sequence[str], counts: Sequence[int]) -> frozenset[str]:
        return frozenset(draw.sample(names, draw.choice(counts)))

    def alternatives(names: Sequence[str]) -> tuple[frozenset[str], ...]:
        return tuple(some(names, (1, 2)) for _ in range(draw.choice((0, 0, 1, 1, 2))))

    suffixes = draw.choice(([""], [""], [""], ["", "_A"], ["_A"], ["_A", "_B"]))
    groups = tuple(
        candidate.RequestGroup(
            suffix,
            {
                name: draw.randint(1, 5)
                for name in some(CLASSES, (1, 2) if suffix else (1, 2, 2, 3))
            },
            required=alternatives(TRAITS),
            forbidden=some(TRAITS, (0, 0, 0, 1, 2)),
            member_of=alternatives(AGGREGATES),
            forbidden_aggregates=some(AGGREGATES, (0, 0, 0, 1, 2)),
        )
        for suffix in suffixes
    )
    isolate = len(groups) > 1 and draw.random() < 0.3
    return candidate.CandidateQuery(groups, isolate=isolate, nested=True)


def cases(seed: int) -> Iterator[tuple[state.CloudState, candidate.CandidateQuery]]:
    """A cloud with some queries."""
    draw = random.Random(f"smallest {seed}")
    base = draw_state(draw)
    for query in [draw_query(draw) for _ in range(QUERIES)]:
        yield base, query


def roots_of(base: state.CloudState) -> list[str]:
    return [*base.tree]


def sufficient_sets(
    base: state.CloudState, query: candidate.CandidateQuery
) -> dict[frozenset[Constraint], tuple[list[Constraint], set[Amounts]]]:
    """The smallest sets of constraints to remove or lower: with all amounts that suffice."""
    smallest: dict[frozenset[Constraint], tuple[list[Constraint], set[Amounts]]] = {}
    conditions = constraint.constraints_of(query)
    for size in range(1, MOST_CONDITIONS + 1):
        for chosen in itertools.combinations(conditions, size):
            if any(smaller <= {*chosen} for smaller in smallest):
                continue
            lowered = [condition for condition in chosen if condition.kind is Kind.RESOURCES]
            removed = tuple(part for part in chosen if part.kind is not Kind.RESOURCES)
            amounts = {
                numbers
                for numbers in itertools.product(*(range(part.amount or 0) for part in lowered))
                if serves(base, query, removed, dict(zip(lowered, numbers, strict=True)))
            }
            if amounts:
                smallest[frozenset(chosen)] = lowered, amounts
    return smallest


def serves(
    base: state.CloudState,
    query: candidate.CandidateQuery,
    removed: tuple[Constraint, ...],
    amounts: Mapping[Constraint, int],
) -> bool:
    changed = SmallestChange(0, removed=removed, amounts=amounts).of(query)
    is_request = any(group.resources for group in changed.groups)
    return is_request and bool(oracle.hosts(base, changed))


def given_up(amounts: Amounts, lowered: Sequence[Constraint]) -> float:
    return sum(1 - n / (each.amount or 1) for n, each in zip(amounts, lowered, strict=True))


@pytest.mark.seeds(25, long=400)
def test_the_smallest_changes_of_a_request_are_all_listed_with_the_largest_amounts(
    seed: int,
) -> None:
    for base, query in cases(seed):
        if oracle.hosts(base, query):
            continue
        relaxations = Relaxations(base, query, constraint.constraints_of(query))
        listed = {
            frozenset({*change.removed, *change.amounts}): change.amounts
            for change in changes.of_query(base, query, relaxations, roots_of(base))
            # A larger amount, for step_size, is a change of another kind.
            if all(amount < (condition.amount or 0) for condition, amount in change.amounts.items())
        }
        expected = sufficient_sets(base, query)
        assert listed.keys() <= expected.keys()
        assert len(listed) == min(len(expected), changes.MOST_CHANGES), expected.keys()
        for removed, amounts in listed.items():
            lowered, choices = expected[removed]
            own = tuple(amounts[condition] for condition in lowered)
            assert own in choices
            least = min(given_up(choice, lowered) for choice in choices)
            assert given_up(own, lowered) == pytest.approx(least), (lowered, choices)


@pytest.mark.seeds(25, long=400)
def test_the_answer_for_a_host_is_the_same_whichever_hosts_were_asked_before(seed: int) -> None:
    """Hosts that are alike are searched once: the amounts that they accept must be alike too."""
    draw = random.Random(f"alike {seed}")
    base = clouds.cloud(*(draw_provider(draw, f"h{at}", "", CLASSES[:1]) for at in range(8)))
    query = clouds.query(clouds.group(VCPU=draw.randint(2, 9)))
    order = constraint.constraints_of(query)
    together = Relaxations(base, query, order)
    for root in roots_of(base):
        alone = Relaxations(base, query, order)
        assert together.smallest(root) == alone.smallest(root)
        assert together.step(root) == alone.step(root)


def single_steps(
    base: state.CloudState, root: str, query: candidate.CandidateQuery
) -> Iterator[Step]:
    """Every step that may help a host; amounts are more than enough."""
    requested = {name for group in query.groups for name in group.resources}
    for uuid in base.tree[root]:
        provider = base.providers[uuid]
        for name in TRAITS:
            has = name in provider.traits
            yield Step(uuid, Action.REMOVE_TRAIT if has else Action.ADD_TRAIT, name)
        for name in AGGREGATES:
            has = name in provider.aggregates
            yield Step(uuid, Action.LEAVE if has else Action.JOIN, name)
        for name in requested & provider.inventories.keys():
            yield Step(uuid, Action.FREE, name, amount=PLENTY)
            for field, value in (("max_unit", PLENTY), ("min_unit", 1), ("step_size", 1)):
                if getattr(provider.inventories[name], field) != value:
                    yield Step(uuid, Action.AMEND, name, field, value)


def shape(steps: Sequence[Step]) -> object:
    """Equal for changes that add other alternatives, or add them elsewhere in the tree."""
    added = {Action.ADD_TRAIT, Action.JOIN}
    return sorted(
        (step.action, "", "", "")
        if step.action in added
        else ("room", step.provider, step.name, "")
        if step.action in (Action.FREE, Action.RAISE)
        else (step.action, step.provider, step.name, step.field)
        for step in steps
    )


@pytest.mark.seeds(25, long=400)
def test_the_smallest_changes_of_a_host_are_listed(seed: int) -> None:
    for base, query in cases(seed):
        candidates = oracle.hosts(base, query)
        for root in roots_of(base):
            if root in candidates:
                continue
            every = [*single_steps(base, root, query)]
            found = changes.of_host(base, query, root, {})
            sizes = {len(change.steps) for change in found}
            for size in (1, 2):
                sufficient = [
                    steps
                    for steps in itertools.combinations(every, size)
                    if root in oracle.hosts(changes.after(base, steps), query)
                ]
                if sufficient:
                    assert min(sizes, default=None) == size, sufficient
                    listed = [shape(change.steps) for change in found if len(change.steps) == size]
                    expected = [shape(steps) for steps in sufficient]
                    assert all(change in expected for change in listed)
                    different = [
                        change for n, change in enumerate(expected) if change not in expected[:n]
                    ]
                    assert len(found) == 3 or all(change in listed for change in different)
                    break
            else:
                assert not sizes & {1, 2}


def test_a_change_has_the_amount_that_is_enough_if_a_group_goes_elsewhere() -> None:
    node = clouds.provider("h-n0", "h", VCPU=3, MEMORY_MB=3, DISK_GB=3)
    base = clouds.cloud(clouds.provider("h", DISK_GB=3), node)
    required = "|".join(TRAITS[:2])
    groups = (
        clouds.group(MEMORY_MB=2, DISK_GB=1, required=required),
        clouds.group("_A", VCPU=2, DISK_GB=4, required=required),
    )
    # One more, and not two, with either trait: the disk of the other group comes from the root.
    (change,) = changes.of_host(base, clouds.query(*groups, nested=True), "h", {})
    trait, raised = change.steps
    assert (trait.action, trait.provider) == (Action.ADD_TRAIT, "h-n0")
    assert (raised.action, raised.provider, raised.amount) == (Action.RAISE, "h-n0", 1)


def test_a_host_whose_use_is_just_what_a_request_lacks_is_emptied() -> None:
    base = clouds.cloud(clouds.provider("h", DISK_GB=4), used={"h": {"DISK_GB": 4}})
    query = clouds.query(clouds.group(DISK_GB=4))
    (change,) = changes.of_host(base, query, "h", {})
    assert [(step.action, step.amount) for step in change.steps] == [(Action.FREE, 4)]


def test_more_sums_than_the_limit_are_none() -> None:
    assert inventory.subset_sums([1, 2, 4], 8) == set(range(8))
    assert inventory.subset_sums([1, 2, 4], 7) == set()


@pytest.mark.parametrize("tried", [1, 2, 1000])
def test_the_amounts_are_the_largest_however_few_combinations_are_tried(
    tried: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = clouds.cloud(clouds.provider("h", VCPU=8, MEMORY_MB=64))
    query = clouds.query(clouds.group(VCPU=9, MEMORY_MB=100))
    monkeypatch.setattr("osc_placement.workflows.explain.amounts._MOST_AMOUNTS", tried)
    lowered = largest(base, query, "h", list(constraint.constraints_of(query)))
    assert lowered is not None
    assert {part.names: amount for part, amount in lowered.items()} == {
        ("VCPU",): 8,
        ("MEMORY_MB",): 64,
    }


def test_a_trait_of_a_group_is_added_to_the_host_and_not_to_what_it_shares() -> None:
    base = clouds.cloud(
        clouds.provider("h", aggregates=AGGREGATES[0], VCPU=3),
        clouds.provider("a", aggregates=AGGREGATES[0], traits=clouds.SHARES, DISK_GB=9),
    )
    group = clouds.group(DISK_GB=1, VCPU=1, required=TRAITS[0])
    found = changes.of_host(base, clouds.query(group, nested=True), "h", {})
    assert [[(step.action, step.provider) for step in change.steps] for change in found] == [
        [(Action.ADD_TRAIT, "h")]
    ]
