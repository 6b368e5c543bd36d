"""The number of pinned CPUs of a server: nova's rules for CPU policies. Pure.

The rules are those of nova 34 (``nova.scheduler.utils.ResourceRequest``);
tests/interop/test_flavor.py compares the results.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

DEDICATED, SHARED, MIXED = POLICIES = ("dedicated", "shared", "mixed")
ISOLATE, SHARE = EMULATOR_POLICIES = ("isolate", "share")

_TRUE = {"1", "t", "true", "on", "y", "yes"}


class Contradiction(ValueError):
    """Nova refuses this flavor with this image; the text says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pinning:
    """The number of CPUs in PCPU and in VCPU; None does not change that class."""

    pinned: int | None = None
    shared: int | None = None


def is_true(text: str | None) -> bool:
    """Whether nova parses a property as true; it parses unknown values as false."""
    return text is not None and text.strip().lower() in _TRUE


def pin(vcpus: int, specs: Mapping[str, str], image: Mapping[str, str]) -> Pinning:
    """The pinned and shared CPUs for extra specs and image properties.

    Raises Contradiction.
    """
    policy = _policy(specs.get("hw:cpu_policy"), image.get("hw_cpu_policy"))
    emulator = specs.get("hw:emulator_threads_policy")
    if emulator and emulator not in EMULATOR_POLICIES:
        raise Contradiction(f"hw:emulator_threads_policy={emulator} is not a policy")
    one_more = emulator == ISOLATE
    if policy == DEDICATED:
        return Pinning(vcpus + one_more)
    if policy == MIXED:
        pinned = _count_dedicated(vcpus, specs, image)
        return Pinning(pinned + one_more, vcpus - pinned)
    return Pinning()


def may_be_pinned_by_image(specs: Mapping[str, str]) -> bool:
    """Whether hidden image properties could change the pinned CPUs."""
    policy = specs.get("hw:cpu_policy")
    if policy == MIXED:
        return not specs.get("hw:cpu_dedicated_mask") and is_true(specs.get("hw:cpu_realtime"))
    return not policy


def _policy(flavor: str | None, image: str | None) -> str:
    """The flavor's policy; an image may set it if the flavor does not forbid that."""
    for source, policy in (("hw:cpu_policy", flavor), ("the image's hw_cpu_policy", image)):
        if policy and policy not in POLICIES:
            raise Contradiction(f"{source}={policy} is not a policy")
    forbidden = {SHARED: (DEDICATED, MIXED), MIXED: (DEDICATED,)}.get(flavor or "", ())
    if image in forbidden:
        raise Contradiction(f"hw:cpu_policy={flavor} forbids the image's hw_cpu_policy={image}")
    return flavor or image or SHARED


def _count_dedicated(vcpus: int, specs: Mapping[str, str], image: Mapping[str, str]) -> int:
    """The dedicated CPUs of a mixed policy: those of the mask, or else the realtime CPUs."""
    realtime = _realtime(vcpus, specs, image)
    mask = specs.get("hw:cpu_dedicated_mask")
    if not mask:
        return len(realtime)
    chosen = _chosen(vcpus, mask, "hw:cpu_dedicated_mask")
    if not 0 < len(chosen) < vcpus:
        raise Contradiction(f"hw:cpu_dedicated_mask={mask} must select some CPUs and leave some")
    return len(chosen)


def _realtime(vcpus: int, specs: Mapping[str, str], image: Mapping[str, str]) -> set[int]:
    if not is_true(specs.get("hw:cpu_realtime")):
        return set()
    mask = image.get("hw_cpu_realtime_mask") or specs.get("hw:cpu_realtime_mask")
    chosen = _chosen(vcpus, mask, "hw:cpu_realtime_mask") if mask else set(range(vcpus))
    # Without an emulator threads policy, one CPU is left for the emulator threads.
    most = vcpus if specs.get("hw:emulator_threads_policy") else vcpus - 1
    if not 0 < len(chosen) <= most:
        raise Contradiction(
            "hw:cpu_realtime needs a realtime CPU, and another one for the emulator threads"
        )
    return chosen


def _chosen(vcpus: int, mask: str, name: str) -> set[int]:
    """The CPUs of a mask such as ``0-3,^2``; a mask that begins with ``^`` starts from all CPUs.

    Raises Contradiction.
    """
    everything = set(range(vcpus))
    rules = [rule.strip() for rule in mask.split(",")]
    chosen = set(everything) if rules[0].startswith("^") else set()
    without: set[int] = set()
    for rule in filter(None, rules):
        try:
            (without if rule.startswith("^") else chosen).update(_range(rule.removeprefix("^")))
        except ValueError:
            raise Contradiction(f"{name}={mask} is not a CPU mask: {rule}") from None
    chosen -= without
    if not chosen <= everything:
        raise Contradiction(f"{name}={mask} is beyond the flavor's {vcpus} CPUs")
    return chosen


def _range(rule: str) -> range:
    """``2`` or ``2-4``; raises ValueError."""
    first, dash, last = rule.partition("-")
    found = range(int(first), int(last if dash else first) + 1)
    if not found:
        raise ValueError(rule)
    return found
