# SPDX-License-Identifier: Apache-2.0
"""The CPUs, the NUMA nodes and the memory pages of a guest, and what nova refuses. Pure.

``pin`` counts the pinned CPUs of a server for its request; ``refusals`` are the reasons for which
nova's API refuses a flavor with an image. lab/tests/test_request.py and test_flavor.py compare
both with nova.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

Properties = Mapping[str, str]

DEDICATED, SHARED, MIXED = POLICIES = ("dedicated", "shared", "mixed")
ISOLATE, SHARE = EMULATOR_POLICIES = ("isolate", "share")

_TRUE = {"1", "t", "true", "on", "y", "yes"}
_FALSE = {"0", "f", "false", "off", "n", "no"}


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


def to_bool(text: str) -> bool | None:
    """A value that nova parses strictly: None for one that it refuses."""
    return is_true(text) or (False if text.strip().lower() in _FALSE else None)


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
    chosen = chosen_cpus(vcpus, mask, "hw:cpu_dedicated_mask")
    if not 0 < len(chosen) < vcpus:
        raise Contradiction(f"hw:cpu_dedicated_mask={mask} must select some CPUs and leave some")
    return len(chosen)


def _realtime(vcpus: int, specs: Mapping[str, str], image: Mapping[str, str]) -> set[int]:
    if not is_true(specs.get("hw:cpu_realtime")):
        return set()
    mask = image.get("hw_cpu_realtime_mask") or specs.get("hw:cpu_realtime_mask")
    chosen = chosen_cpus(vcpus, mask, "hw:cpu_realtime_mask") if mask else set(range(vcpus))
    # Without an emulator threads policy, one CPU is left for the emulator threads.
    most = vcpus if specs.get("hw:emulator_threads_policy") else vcpus - 1
    if not 0 < len(chosen) <= most:
        raise Contradiction(
            "hw:cpu_realtime needs a realtime CPU, and another one for the emulator threads"
        )
    return chosen


def chosen_cpus(vcpus: int, mask: str, name: str) -> set[int]:
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
    numbers = range(int(first), int(last if dash else first) + 1)
    if not numbers:
        raise ValueError(rule)
    return numbers


# What nova refuses

_SYMBOLIC_PAGES = ("large", "small", "any")
_PAGE = re.compile(r"\d+|\d*\.?\d+([KMGTPEZY]i?)?(b|bit|B)")
_NO_PAGE = re.compile(r"[0.]+(?!\d|\.)")
#: The largest number of sockets, cores and threads, if neither flavor nor image has a limit.
_MOST = 65536
_CPU_RESOURCE = re.compile(r"resources\d*:(VCPU|PCPU)")
#: Extra specs that an image must not contradict; the property of the image is named alike.
_SWITCHES = ("hw:pmu", "hw:vif_multiqueue_enabled", "hw:locked_memory")


def refusals(vcpus: int, ram: int, specs: Properties, image: Properties) -> Iterator[str]:
    """Why nova's API refuses servers of a flavor with an image: a sentence for each reason.

    ``ram`` is in MiB.
    """
    checks = (
        _cpu_refusals(vcpus, specs, image),
        _realtime_refusals(vcpus, specs, image),
        _resource_refusals(vcpus, specs, image),
        _page_refusals(specs, image),
        _node_refusals(vcpus, ram, specs, image),
        _limit_refusals(specs, image),
        _conflicts(vcpus, specs, image),
    )
    for check in checks:
        try:
            yield from check
        except Contradiction as contradiction:
            yield str(contradiction)


def _effective_policy(specs: Properties, image: Properties) -> str:
    """The CPU policy; PCPU as a resource makes it dedicated. Raises Contradiction."""
    policy = _policy(specs.get("hw:cpu_policy"), image.get("hw_cpu_policy"))
    return DEDICATED if policy == SHARED and _requested_cpus(specs)["PCPU"] else policy


def _requested_cpus(specs: Properties) -> Mapping[str, int]:
    """``{VCPU: amount, PCPU: amount}`` of the groups without a suffix or with a number."""
    total = {"VCPU": 0, "PCPU": 0}
    for key, value in specs.items():
        match = _CPU_RESOURCE.fullmatch(key)
        if match:
            # Nova also adds what it ignores later: a sign, blanks, underscores.
            with contextlib.suppress(ValueError):
                total[match[1]] += int(value)
    return total


def _cpu_refusals(vcpus: int, specs: Properties, image: Properties) -> Iterator[str]:
    policy = _effective_policy(specs, image)
    mask = specs.get("hw:cpu_dedicated_mask")
    realtime = is_true(specs.get("hw:cpu_realtime"))
    if mask:
        chosen = chosen_cpus(vcpus, mask, "hw:cpu_dedicated_mask")
        if not 0 < len(chosen) < vcpus:
            yield f"hw:cpu_dedicated_mask={mask} must select some CPUs and leave some"
        if policy != MIXED:
            yield f"hw:cpu_dedicated_mask={mask} needs hw:cpu_policy=mixed"
        elif realtime:
            yield "hw:cpu_dedicated_mask and hw:cpu_realtime exclude each other"
    elif policy == MIXED and not realtime:
        yield "hw:cpu_policy=mixed needs hw:cpu_dedicated_mask or realtime CPUs"
    threads = specs.get("hw:cpu_thread_policy") or image.get("hw_cpu_thread_policy")
    if threads and policy == SHARED:
        yield f"the CPU thread policy {threads} needs a dedicated CPU policy"
    emulator = specs.get("hw:emulator_threads_policy")
    if emulator == ISOLATE and policy == SHARED:
        yield "hw:emulator_threads_policy=isolate needs a dedicated CPU policy"


def _realtime_refusals(vcpus: int, specs: Properties, image: Properties) -> Iterator[str]:
    if is_true(specs.get("hw:cpu_realtime")):
        if _effective_policy(specs, image) == SHARED:
            yield "hw:cpu_realtime needs a dedicated or mixed CPU policy"
        _realtime(vcpus, specs, image)


def _resource_refusals(vcpus: int, specs: Properties, image: Properties) -> Iterator[str]:
    """CPUs that extra specs request as resources."""
    requested = _requested_cpus(specs)
    if not any(requested.values()):
        return
    if specs.get("hw:cpu_policy") or image.get("hw_cpu_policy"):
        yield "resources:VCPU and resources:PCPU are not allowed with a CPU policy"
    if all(requested.values()):
        yield "resources:VCPU and resources:PCPU exclude each other"
    isolated = specs.get("hw:emulator_threads_policy") == ISOLATE
    if requested["PCPU"] not in (0, vcpus + isolated):
        more = " and one for the emulator threads" if isolated else ""
        yield f"resources:PCPU={requested['PCPU']} is not the flavor's {vcpus} vcpus{more}"


def _page_refusals(specs: Properties, image: Properties) -> Iterator[str]:
    flavor, own = specs.get("hw:mem_page_size"), image.get("hw_mem_page_size")
    for title, text in (("hw:mem_page_size", flavor), ("the image's hw_mem_page_size", own)):
        if text and not _is_page(text):
            yield f"{title}={text} is not a page size"
    if own and flavor not in ("large", "any"):
        yield f"the image's hw_mem_page_size={own} needs hw:mem_page_size=large or any"
    locked = any(
        is_true(value) for value in (specs.get("hw:locked_memory"), image.get("hw_locked_memory"))
    )
    if locked and not flavor:
        yield "locked memory needs hw:mem_page_size"


def _is_page(text: str) -> bool:
    """Whether nova parses a page size: a word, KiB, or a number with a unit such as ``1GB``."""
    return text in _SYMBOLIC_PAGES or bool(_PAGE.fullmatch(text))


def _sets_page_size(specs: Properties, image: Properties) -> bool:
    """Whether nova gives the guest a NUMA node for its page size; a size of zero is none."""
    size = specs.get("hw:mem_page_size")
    if size in ("large", "any"):
        size = image.get("hw_mem_page_size") or size
    return not _NO_PAGE.match(size or "0")


def _node_refusals(vcpus: int, ram: int, specs: Properties, image: Properties) -> Iterator[str]:
    nodes = specs.get("hw:numa_nodes") or image.get("hw_numa_nodes")
    if specs.get("hw:numa_nodes") and image.get("hw_numa_nodes", "0") != "0":
        yield "hw:numa_nodes forbids the image's hw_numa_nodes"
    if not nodes:
        implied = _sets_page_size(specs, image) or specs.get("hw:pmem")
        if not implied and _effective_policy(specs, image) == SHARED:
            return
        nodes = "1"
    if not nodes.isdecimal() or not int(nodes):
        yield f"{nodes} is not a number of NUMA nodes"
        return
    count = int(nodes)
    cpus, memory = (_by_node(specs, image, key) for key in ("numa_cpus", "numa_mem"))
    if cpus or memory:
        yield from _explicit_nodes(vcpus, ram, count, cpus, memory)
    elif vcpus % count or ram % count:
        yield f"{vcpus} vcpus and {ram} MiB do not divide by {count} NUMA nodes"


def _explicit_nodes(
    vcpus: int, ram: int, count: int, cpus: Sequence[str], memory: Sequence[str]
) -> Iterator[str]:
    if not len(cpus) == len(memory) == count:
        yield f"CPUs and memory are not set for all {count} NUMA nodes"
        return
    assigned: set[int] = set()
    for text in cpus:
        chosen = chosen_cpus(vcpus, text, "hw:numa_cpus")
        if chosen & assigned:
            yield f"several NUMA nodes have the CPUs {sorted(chosen & assigned)}"
        assigned |= chosen
    if len(assigned) < vcpus:
        yield f"no NUMA node has the CPUs {sorted(set(range(vcpus)) - assigned)}"
    total = sum(int(text) for text in memory if text.isdecimal())
    if total != ram:
        yield f"the NUMA nodes have {total} of {ram} MiB"


def _by_node(specs: Properties, image: Properties, key: str) -> list[str]:
    """The texts of the NUMA nodes 0, 1, … as far as they are set without a gap.

    Raises Contradiction if the flavor and the image set them.
    """
    flavor, own = (_numbered(specs, f"hw:{key}"), _numbered(image, f"hw_{key}"))
    if flavor and own:
        raise Contradiction(f"hw:{key} forbids the image's hw_{key}")
    return flavor or own


def _numbered(properties: Properties, key: str) -> list[str]:
    texts = (properties.get(f"{key}.{node}", "") for node in itertools.count())
    return list(itertools.takewhile(bool, texts))


def _limit_refusals(specs: Properties, image: Properties) -> Iterator[str]:
    """Sockets, cores and threads: the image stays within the limits of the flavor."""
    for part in ("sockets", "cores", "threads"):
        keys = (f"hw:cpu_max_{part}", f"hw:cpu_{part}")
        own_keys = (f"hw_cpu_max_{part}", f"hw_cpu_{part}")
        texts = {key: specs[key] for key in keys if specs.get(key)}
        texts |= {key: image[key] for key in own_keys if image.get(key)}
        wrong = [f"{key}={text}" for key, text in texts.items() if not text.isdecimal()]
        if wrong:
            yield f"{', '.join(wrong)} is not a number"
            continue
        numbers = {key: int(text) for key, text in texts.items()}
        limit, own = numbers.get(keys[0], 0), numbers.get(own_keys[0], 0)
        if limit and own > limit:
            yield f"the image's {own_keys[0]}={own} exceeds {keys[0]}={limit}"
        most = own or limit or _MOST
        if numbers.get(own_keys[1], 0) > most:
            yield f"the image's {own_keys[1]}={numbers[own_keys[1]]} exceeds {most}"


def _conflicts(vcpus: int, specs: Properties, image: Properties) -> Iterator[str]:
    """Other extra specs that the image must not contradict."""
    for key in _SWITCHES:
        if key == "hw:vif_multiqueue_enabled" and vcpus < 2:
            continue
        flavor, own = specs.get(key), image.get(key.replace(":", "_"))
        if flavor and own and is_true(flavor) != is_true(own):
            yield f"{key}={flavor} contradicts the image's {key.replace(':', '_')}={own}"
    key, image_key = "hw:pci_numa_affinity_policy", "hw_pci_numa_affinity_policy"
    if specs.get(key) and image.get(image_key) and specs[key] != image[image_key]:
        yield f"{key}={specs[key]} forbids the image's {image_key}={image[image_key]}"
    most, ports = specs.get("hw:serial_port_count"), image.get("hw_serial_port_count")
    # Nova reads 0 ports of a flavor as no limit.
    if most and ports and 0 < int(most) < int(ports):
        yield f"the image's hw_serial_port_count={ports} exceeds hw:serial_port_count={most}"
