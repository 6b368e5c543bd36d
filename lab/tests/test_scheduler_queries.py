# SPDX-License-Identifier: Apache-2.0
"""The queries that nova's scheduler sends for pinned CPUs and for a named target, in their order.

``--long`` asks every release.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from lab.tests import test_api_refusals as nova

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

TARGET = "in_tree=00000000-0000-4000-8000-000000000002"
NO_FALLBACK = {"workarounds.disable_fallback_pcpu_query": True}


def query(cpus: str, *more: str) -> str:
    """A query for the lab's flavor, without its limit and without what every query forbids."""
    return "&".join(sorted((*more, f"resources=DISK_GB:20,MEMORY_MB:2048,{cpus}")))


SHARED, PINNED = query("VCPU:2"), query("PCPU:2")
THREADS = query("PCPU:2", "required=HW_CPU_HYPERTHREADING")
NO_THREADS = query("PCPU:2", "required=!HW_CPU_HYPERTHREADING")


def pinned(**more: str) -> nova.Case:
    keys = {f"hw:{name}": value for name, value in more.items()}
    return {"way": "boot", "specs": {"hw:cpu_policy": "dedicated", **keys}}


#: ``{name: (question, queries)}``.
QUERIES: Mapping[str, tuple[nova.Case, Sequence[str]]] = {
    "plain": ({"way": "boot"}, (SHARED,)),
    # The second query is sent although the first one has candidates.
    "pinned": (pinned(), (PINNED, SHARED)),
    "pinned by the image": (
        {"way": "boot", "image": {"hw_cpu_policy": "dedicated"}},
        (PINNED, SHARED),
    ),
    "pinned, without the fallback": ({**pinned(), "options": NO_FALLBACK}, (PINNED,)),
    # The trait is not in the second query.
    "isolated threads": (
        pinned(cpu_thread_policy="isolate"),
        (NO_THREADS, SHARED),
    ),
    "required threads": (pinned(cpu_thread_policy="require"), (THREADS, SHARED)),
    "own emulator threads": (
        pinned(emulator_threads_policy="isolate"),
        (query("PCPU:3"), SHARED),
    ),
    "shared emulator threads": (pinned(emulator_threads_policy="share"), (PINNED, SHARED)),
    "mixed": (
        pinned(cpu_policy="mixed", cpu_dedicated_mask="0"),
        (query("PCPU:1,VCPU:1"),),
    ),
    "resources": ({"way": "boot", "specs": {"resources:PCPU": "2"}}, (PINNED,)),
    **{
        f"{way} to a host": (
            {**nova.prepared(way, {}), "target": "target"},
            (query("VCPU:2", TARGET),),
        )
        for way in ("boot", "live-migrate", "cold-migrate", "evacuate", "unshelve")
    },
    **{
        f"{way} of a pinned server to a host": (
            {**nova.prepared(way, pinned()), "way": way, "target": "target"},
            (query("PCPU:2", TARGET), query("VCPU:2", TARGET)),
        )
        for way in ("boot", "live-migrate", "cold-migrate", "evacuate", "unshelve")
    },
    **{way: (nova.prepared(way, {}), ()) for way in ("shelve", "shelve-offload", "stop")},
}


def sent(answer: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(
        "&".join(
            f"{name}={value}"
            for name, value in sorted(urllib.parse.parse_qsl(text))
            if name not in ("limit", "root_required")
        )
        for text in answer["queries"]
    )


@nova.each_release
def test_the_scheduler_sends_these_queries(release: int) -> None:
    answers = nova.ask(release, [question for question, _ in QUERIES.values()])
    queries = {name: sent(answer) for name, answer in zip(QUERIES, answers, strict=True)}
    assert queries == {name: tuple(expected) for name, (_, expected) in QUERIES.items()}
