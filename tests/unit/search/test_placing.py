# SPDX-License-Identifier: Apache-2.0
"""The count and the placement of requests, compared with brute force."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping, Sequence

import pytest

from osc_placement.engine.candidates import budget as budgets
from osc_placement.search import placing
from osc_placement.search.placing import Option, Slot

CLASSES = ("VCPU", "DISK_GB")


def option(root: str, **amounts: int) -> Option:
    """``option("host", host_VCPU=2)``."""
    return Option(root, {_slot(text): amount for text, amount in amounts.items()})


def _slot(text: str) -> Slot:
    provider, _, name = text.partition("_")
    return provider, name


def free(**amounts: int) -> dict[Slot, int]:
    return {_slot(text): amount for text, amount in amounts.items()}


def brute_most(options: Sequence[Option], left: Mapping[Slot, int]) -> int:
    """The largest number of requests, by trying every sequence of options."""
    best = 0
    for at, choice in enumerate(options):
        if choice.fits(left):
            after = {slot: left[slot] - choice.amounts.get(slot, 0) for slot in left}
            best = max(best, 1 + brute_most(options[at:], after))
    return best


def brute_fits(choices: Sequence[Sequence[Option]], left: Mapping[Slot, int]) -> bool:
    """Whether an option for each request fits, by trying every combination."""
    return any(_all_fit(chosen, left) for chosen in itertools.product(*choices))


def _all_fit(chosen: Iterable[Option], left: Mapping[Slot, int]) -> bool:
    used = dict.fromkeys(left, 0)
    for choice in chosen:
        for slot, amount in choice.amounts.items():
            used[slot] += amount
    return all(amount <= left[slot] for slot, amount in used.items() if amount)


def draw_options(draw: random.Random, hosts: int, needed: Mapping[str, int]) -> list[Option]:
    """Options on some hosts; the disk is on the host, on its second provider, or shared."""
    options = {}
    for number in range(hosts):
        if draw.random() < 0.8:
            for disk in draw.sample((f"h{number}", f"h{number}b", "shared"), draw.randint(1, 2)):
                amounts = {
                    (f"h{number}", "VCPU"): needed["VCPU"],
                    (disk, "DISK_GB"): needed["DISK_GB"],
                }
                options[frozenset(amounts)] = Option(f"h{number}", amounts)
    return list(options.values())


def draw_free(draw: random.Random, hosts: int, largest: int) -> dict[Slot, int]:
    providers = [f"h{n}{suffix}" for n in range(hosts) for suffix in ("", "b")] + ["shared"]
    return {(uuid, name): draw.randint(-1, largest) for uuid in providers for name in CLASSES}


def draw_needed(draw: random.Random) -> dict[str, int]:
    return {name: draw.randint(1, 3) for name in CLASSES}


@pytest.mark.seeds(100, long=1000)
def test_the_count_equals_brute_force(seed: int) -> None:
    draw = random.Random(f"packing {seed}")
    options = draw_options(draw, 3, draw_needed(draw))
    left = draw_free(draw, 3, 6)
    count = placing.most(options, left)
    assert count.is_exact
    assert count.least == brute_most(options, left)
    assert count.least == sum(times for _, times in count.chosen)
    assert _all_fit([choice for choice, times in count.chosen for _ in range(times)], left)


@pytest.mark.seeds(100, long=1000)
def test_a_placement_exists_exactly_if_brute_force_finds_one(seed: int) -> None:
    draw = random.Random(f"placing {seed}")
    kinds = {kind: draw_options(draw, 3, draw_needed(draw)) for kind in "AB"}
    requests = {f"server{n}": draw.choice("AB") for n in range(draw.randint(1, 6))}
    left = draw_free(draw, 3, 7)
    options = placing.place(placing.Problem(requests, kinds, left), budgets.SearchBudget())
    expected = brute_fits([kinds[kind] for kind in requests.values()], left)
    assert (options is not None) == expected
    if options is not None:
        assert options.keys() == requests.keys()
        assert all(options[name] in kinds[kind] for name, kind in requests.items())
        assert _all_fit(options.values(), left)


def test_without_effort_or_with_many_options_the_count_is_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # One class alone allows three, and each host alone one; the truth needs a search.
    options = [
        option("a", a_VCPU=2, shared_DISK=1),
        option("b", b_VCPU=2, shared_DISK=1),
        option("b", b_VCPU=2, b_DISK=1),
    ]
    left = free(a_VCPU=6, b_VCPU=2, shared_DISK=2, b_DISK=9)
    assert placing.most(options, left) == placing.FitCount(3, 3, placing.most(options, left).chosen)
    bound = placing.most(options, left, effort=0)
    assert (bound.least, bound.most) == (3, 4)
    monkeypatch.setattr(placing, "_MOST_OPTIONS", 2)
    assert placing.most(options, left) == bound


def test_many_equal_hosts_without_room_are_proved_at_once() -> None:
    hosts = 200
    left = {(f"h{n}", name): 5 for n in range(hosts) for name in CLASSES}
    kinds = {
        size: [Option(f"h{n}", {(f"h{n}", name): size for name in CLASSES}) for n in range(hosts)]
        for size in (2, 3)
    }
    requests = {f"large{n}": 3 for n in range(hosts)} | {f"small{n}": 2 for n in range(hosts)}
    budget = budgets.SearchBudget(seconds=20)
    assert placing.place(placing.Problem(requests, kinds, left), budget) is not None
    assert placing.place(placing.Problem({**requests, "more": 2}, kinds, left), budget) is None


def test_amounts_that_no_sum_fills_are_proved_at_once() -> None:
    # Sums of 5 and 7 fill 5 of 6, 7 of 9, 10 of 11 and 12 of 13; no two hosts are alike.
    sizes = {f"h{n}": size for n, size in enumerate((6, 9, 11, 13) * 5)}
    left = {(host, "VCPU"): size for host, size in sizes.items()}
    left |= {(host, "DISK_GB"): 100 + n for n, host in enumerate(sizes)}
    kinds = {
        size: [Option(host, {(host, "VCPU"): size, (host, "DISK_GB"): 1}) for host in sizes]
        for size in (5, 7)
    }
    requests = {f"small{n}": 5 for n in range(20)} | {f"large{n}": 7 for n in range(10)}
    assert sum(requests.values()) == 5 * (5 + 7 + 10 + 12)
    budget = budgets.SearchBudget(seconds=20)
    assert placing.place(placing.Problem({**requests, "more": 5}, kinds, left), budget) is None


def test_the_sums_of_an_owner_are_checked_when_all_its_requests_are_placed() -> None:
    left = free(a_VCPU=6, b_VCPU=4)
    amounts = {"A4": 4, "B3": 3, "A2": 2, "B1": 1}
    kinds = {
        # The first options of A lead away from the only placement: A on a, B on b.
        name: [option(host, **{f"{host}_VCPU": amount}) for host in ("b", "a")]
        for name, amount in amounts.items()
    }
    sums = {
        (owner, slot): placing.SumRule(0, least, least, 1)
        for owner, least in (("A", 6), ("B", 4))
        for slot in left
    }
    requests = {name: name for name in amounts}
    owners = {name: name[0] for name in amounts}
    problem = placing.Problem(requests, kinds, left, owners, sums)
    assert placing.place(problem, budgets.SearchBudget(), effort=1) is None
    options = placing.place(problem, budgets.SearchBudget())
    assert options is not None
    hosts = {name: choice.root_uuid for name, choice in options.items()}
    assert hosts == {"A4": "a", "A2": "a", "B3": "b", "B1": "b"}


@pytest.mark.parametrize(("on_b", "placed"), [(2, {"x": "b", "y": "a"}), (1, None)])
def test_what_is_fixed_stays_or_leaves_no_placement(
    on_b: int, placed: dict[str, str] | None
) -> None:
    options = [option("a", a_VCPU=2), option("b", b_VCPU=2)]
    left = free(a_VCPU=4, b_VCPU=on_b)
    problem = placing.Problem({"x": "kind", "y": "kind"}, {"kind": options}, left)
    chosen = placing.place(problem, budgets.SearchBudget(), {"x": options[1]})
    assert (chosen and {name: choice.root_uuid for name, choice in chosen.items()}) == placed


@pytest.mark.parametrize(("most", "fits"), [(5, False), (6, True)])
def test_the_options_of_an_owner_have_no_larger_sum_than_its_limit(most: int, fits: bool) -> None:
    left = free(a_VCPU=9)
    rules = {("owner", slot): placing.SumRule(0, 1, most, 1) for slot in left}
    requests = {"x": "kind", "y": "kind"}
    kinds = {"kind": [option("a", a_VCPU=3)]}
    problem = placing.Problem(requests, kinds, left, {"kind": "owner"}, rules)
    assert (placing.place(problem, budgets.SearchBudget()) is not None) is fits


def test_a_search_ends_with_its_budget() -> None:
    draw = random.Random("hard")
    left = {(f"h{n}", name): draw.randint(40, 60) for n in range(12) for name in CLASSES}
    sizes = [(draw.randint(7, 23), draw.randint(7, 23)) for _ in range(60)]
    kinds = {
        size: [
            Option(f"h{n}", dict(zip(((f"h{n}", "VCPU"), (f"h{n}", "DISK_GB")), size, strict=True)))
            for n in range(12)
        ]
        for size in sizes
    }
    total = {name: sum(left[f"h{n}", name] for n in range(12)) for name in CLASSES}
    requests = {}
    for number, size in enumerate(sizes):
        total = {name: total[name] - amount for name, amount in zip(CLASSES, size, strict=True)}
        if min(total.values()) < 2:
            break
        requests[f"s{number}"] = size
    with pytest.raises(budgets.SearchTooLong):
        placing.place(placing.Problem(requests, kinds, left), budgets.SearchBudget(seconds=0.2))
