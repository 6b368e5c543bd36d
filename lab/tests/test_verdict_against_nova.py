# SPDX-License-Identifier: Apache-2.0
"""The product's verdict before the scheduler, against the answers of nova's own code.

Random servers and actions (``test_api_refusals``) are asked of a release of nova and of
``verdict.refusal``. A yes is wrong if nova-api or nova-conductor refuses, a no is wrong if neither
does; unknown is no error, but must be rare where an API shows the fact. Without one of its facts
the product may know less, and may not contradict nova either. ``--long`` asks more, and every
release; ``OSC_PLACEMENT_LAB_CASES`` sets the number of cases.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import pytest

from lab.tests import test_api_refusals as nova
from osc_placement import errors
from osc_placement.neutron.api import Port
from osc_placement.nova import values
from osc_placement.nova.flavor import Flavor
from osc_placement.scheduling import nova_options, request, traits, verdict
from osc_placement.scheduling.answer import Answer, Verdict
from osc_placement.scheduling.api_rules import TARGET_RULES
from osc_placement.scheduling.case import Case, Facts, Way
from osc_placement.scheduling.rule import Host
from osc_placement.scheduling.server_hosts import ServerHosts

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

FEW, MANY = 100, 2000
CASES_VARIABLE = "OSC_PLACEMENT_LAB_CASES"

#: Nova's hosts; ``other`` is in the only availability zone.
SOURCE, TARGET, OTHER = HOSTS = ("source", "target", "other")
ZONE = values.HostAggregate("1", "zone-a", "a", (OTHER,), {"availability_zone": "zone-a"})
#: The first release whose alias may have ``live_migratable``.
LIVE_DEVICES_SINCE = 31
#: The first release that has shares.
SHARES_SINCE = 31
#: From this release on every nova-compute can leave an evacuated server stopped, as nova-api wants
#: from compute API 2.95 on; which version of the API a client asks for is no question of a rule.
STOPS_SINCE = 29
#: The largest share of unknown answers that an API of nova could have told.
MOST_UNKNOWN = 0.02
#: The beginning of facts that no API shows: which devices of a host are free.
SHOWN_NOWHERE = ("the devices of the PCI alias",)
#: The rules about every target, which nova applies once the scheduler has named one.
AFTER_SCHEDULER = frozenset({"MigrationPreCheckError"})

#: The question's name of each way; nova's others are no questions of the product.
WAYS: Mapping[str, Way] = {
    "live-migrate": Way.LIVE_MIGRATE,
    "cold-migrate": Way.MIGRATE,
    "resize": Way.RESIZE,
    "evacuate": Way.EVACUATE,
    "shelve": Way.SHELVE,
    "unshelve": Way.UNSHELVE,
    "boot": Way.BOOT,
}


class AllFacts(Facts):
    """Every host may have every trait; ``newest`` are the hosts with a nova-compute of nova 34."""

    def __init__(self, *, newest: Collection[str], has_share: bool) -> None:
        self._newest, self._has_share = newest, has_share

    def with_trait(self, trait: str) -> Collection[str]:
        return self._newest if trait == traits.OWNER else HOSTS

    def has_share(self, server: values.Server) -> bool:
        return self._has_share


def service(host: str, status: str) -> values.ComputeService:
    """A compute service in one of the oracle's states."""
    return values.ComputeService(
        host,
        is_up="down" not in status,
        is_enabled="disabled" not in status,
        is_forced_down="forced down" in status,
    )


def hosts_of(question: nova.Case) -> ServerHosts:
    """The hosts; each has its own name as the UUID of its provider."""
    nodes = tuple(
        values.ComputeNode(host, host, host, hypervisor=("QEMU", 8002000)) for host in HOSTS
    )
    states = (question["host_status"], question["target_status"], "up")
    return ServerHosts(values.Hosts(nodes, tuple(map(service, HOSTS, states))))


def old_flavor(question: nova.Case) -> Flavor:
    """The flavor that is embedded in the server, or that of a new server."""
    return Flavor(2, 2048, 20, extra_specs=question["specs"])


def wanted_flavor(question: nova.Case) -> tuple[str, Flavor]:
    """The name and the flavor that the scheduler gets."""
    new = question["new_flavor"]
    if question["way"] != "resize" or new["same"]:
        return "old", old_flavor(question)
    return "new", Flavor(4, 2048, new["root_gb"], extra_specs=new["specs"])


def server_of(question: nova.Case) -> values.Server | None:
    """The server as nova's API shows it."""
    if question["way"] == "boot":
        return None
    return values.Server(
        "s",
        host=SOURCE if question["on_host"] else None,
        vm_state=question["vm_state"],
        task_state=question["task_state"],
        power_state=question["power_state"],
        launched=question["launched"],
        flavor=old_flavor(question),
        flavor_name="old",
        image_properties=question["image"],
        from_volume=question["volume"],
    )


def spec_of(question: nova.Case) -> request.ServerSpec:
    """What the scheduler gets."""
    name, flavor = wanted_flavor(question)
    is_volume = question["volume"] and question["way"] != "boot"
    zone = question.get("zone")
    ports = [] if question["way"] == "boot" else question["ports"]
    return request.ServerSpec(
        flavor,
        name,
        image=question["image"],
        from_volume=is_volume,
        availability_zone=zone,
        names_zone=zone is not None,
        project_id="p",
        uuid="s",
        flavor_name=name,
        ports=[
            Port(f"p{at}", f"p{at}", "s", vnic_type=port["vnic_type"])
            for at, port in enumerate(ports)
        ],
    )


def case_of(question: nova.Case, release: int) -> Case:
    """The product's case, with all that the clients of a cloud can know."""
    new = question["new_flavor"]
    is_newest = release == traits.RELEASES[-1]
    newest = HOSTS if question["least_version"] is None else (SOURCE, TARGET)
    return Case(
        WAYS[question["way"]],
        spec_of(question),
        hosts_of(question),
        (release,),
        nova_options.SchedulerOptions(
            release=release,
            owner=is_newest and question["least_version"] is None,
            aliases=nova_options.read_aliases(map(json.dumps, question["aliases"])),
            enabled_filters=("ComputeFilter",),
        ),
        aggregates=(ZONE,),
        server=server_of(question),
        target=question.get("target"),
        is_disabled=new["disabled"] and not new["same"],
        facts=AllFacts(newest=newest if is_newest else (), has_share=bool(question["shares"])),
    )


#: What the product can lack: ``{what: the case without it}``.
LESS: Mapping[str, Callable[[Case], Case]] = {
    "facts of hosts and shares": lambda case: dataclasses.replace(case, facts=Facts()),
    "image": lambda case: dataclasses.replace(
        case, spec=dataclasses.replace(case.spec, image=None, why_no_image="it was not read")
    ),
    "nova.conf": lambda case: dataclasses.replace(
        case,
        options=dataclasses.replace(case.options, aliases=None, enabled_filters=None),
    ),
    "hosts": lambda case: dataclasses.replace(case, compute=ServerHosts()),
    "release": lambda case: dataclasses.replace(case, releases=traits.RELEASES[::-1]),
}


def open_facts(requests: Sequence[request.NovaRequest]) -> tuple[str, ...]:
    """What a query leaves open."""
    return tuple(text for single in requests for text in single.caveats.doubts)


def of_request(case: Case) -> Verdict:
    """The product's verdict about nova's query, and about the zone of a named host."""
    if case.way is Way.SHELVE:
        return Verdict()
    try:
        asked = request.requests_by_release(case.spec, case.aggregates, case.options, case.releases)
    except errors.InvalidInput as error:
        return Verdict((str(error),))
    if case.way is not Way.UNSHELVE:
        # Placement refuses the zone of a new server with a host, and this lab has no Placement.
        return Verdict(unknown=open_facts(asked))
    own = {aggregate.uuid for aggregate in case.aggregates if case.target in aggregate.hosts}
    zones = [wanted for nova_request in asked for wanted in nova_request.query.groups[0].member_of]
    if case.target is not None and any(own.isdisjoint(wanted) for wanted in zones):
        return Verdict((f"{case.target} is not in the zone",))
    return Verdict(unknown=open_facts(asked))


def of_target(case: Case) -> Verdict:
    """The product's verdict about the host that the operator names."""
    if case.target is None:
        return Verdict()
    host = Host(case.target, case.target, case.compute.node(case.target), ())
    return sum((rule.verdict(case, host) for rule in TARGET_RULES), Verdict())


def is_asked(question: nova.Case) -> bool:
    """Whether the product has such a question: an unknown host or zone ends its command before."""
    names = (question.get("target"), question.get("zone"))
    return question["way"] in WAYS and "unknown" not in names


def questions(release: int, seed: int, number: int) -> list[nova.Case]:
    """Random servers and ways of which the product has a verdict."""
    # About two of three questions are such.
    drawn = nova.cases(seed, 10 * number, nova.words(release))
    cases = list(itertools.islice(filter(is_asked, drawn), number))
    assert len(cases) == number
    for question in cases:
        if release < LIVE_DEVICES_SINCE:
            question["aliases"] = [
                {key: value for key, value in alias.items() if key != "live_migratable"}
                for alias in question["aliases"]
            ]
        if release < SHARES_SINCE:
            question["shares"] = 0
        if question["way"] == "evacuate" and release < STOPS_SINCE:
            question["microversion"] = "2.94"
    return cases


def refused_before_scheduler(answer: Mapping[str, Any]) -> bool:
    """Whether nova-api or nova-conductor refused."""
    assert "ok" in answer or "refused" in answer, answer
    return answer.get("stage") in ("api", "conductor")


def is_left_to_compute(question: nova.Case) -> bool:
    """Whether the disk of a resize is smaller, and not smaller than at the boot.

    Nova-api accepts it, and nova-compute does not make a disk smaller.
    """
    boot_disk, (_, flavor) = question["boot_disk"], wanted_flavor(question)
    is_image = question["way"] == "resize" and not question["volume"]
    return is_image and bool(boot_disk) and boot_disk <= flavor.disk < old_flavor(question).disk


def contradiction(case: Case, question: nova.Case, answer: Mapping[str, Any]) -> str:
    """Why the product's answer is not nova's; empty if it is, or if it is unknown."""
    if question["way"] == "resize" and answer.get("refused") == nova.BROKEN:
        # A fault of nova 27 (HTTP 500), no refusal: the image encrypts memory, the flavor does not.
        return ""
    said, is_refused = verdict.refusal(case), refused_before_scheduler(answer)
    rule = verdict.refusing_rule(case)
    if rule in AFTER_SCHEDULER:
        is_refused = "refused" in answer
    if rule == "CannotResizeDisk":
        is_refused = is_refused or is_left_to_compute(question)
    if said.answer is Answer.NO:
        return "" if is_refused else f"no: {said.text}"
    later = of_request(case) + of_target(case)
    if later.answer is Answer.NO:
        return "" if "refused" in answer else f"no: {later.text}"
    is_refused = is_refused or answer.get("stage") == "target"
    return "yes" if is_refused and (said + later).answer is Answer.YES else ""


#: What most questions have.
USUAL: nova.Case = {
    "image": nova.ANY_MODEL,
    "power_state": 1,
    "vm_state": "active",
    "on_host": True,
    "launched": True,
    "host_status": "up",
    "target_status": "up",
}


def unusual(question: nova.Case) -> nova.Case:
    """A question without what is as usual, for the text of a failure."""
    kept = {key: value for key, value in question.items() if value and USUAL.get(key) != value}
    if question["way"] != "resize":
        del kept["new_flavor"]
    return kept


def different(release: int, question: nova.Case, answer: Mapping[str, Any]) -> Iterator[str]:
    """The contradictions of a case with all facts, or of those without one."""
    case = case_of(question, release)
    theirs = f"{nova.said(answer)} at {answer.get('stage')}: {answer.get('text')}"
    for less, changed in {
        "none": case,
        **{less: lack(case) for less, lack in LESS.items()},
    }.items():
        why = contradiction(changed, question, answer)
        if why:
            yield f"{why} | {theirs} | lacks {less} | {json.dumps(unusual(question))}"
            return


def number_of_cases(config: pytest.Config) -> int:
    default = MANY if config.getoption("--long") else FEW
    return int(os.environ.get(CASES_VARIABLE, default))


@nova.each_release
def test_no_verdict_contradicts_novas_own_answer(release: int, pytestconfig: pytest.Config) -> None:
    cases = questions(release, release, number_of_cases(pytestconfig))
    answers = nova.ask(release, cases)
    counts: collections.Counter[str] = collections.Counter()
    differences: list[str] = []
    could_be_told: collections.Counter[str] = collections.Counter()
    for question, answer in zip(cases, answers, strict=True):
        case = case_of(question, release)
        said = verdict.refusal(case) + of_request(case) + of_target(case)
        counts[said.answer.value] += 1
        if said.answer is Answer.UNKNOWN:
            told = [text for text in said.unknown if not text.startswith(SHOWN_NOWHERE)]
            could_be_told.update(told[:1])
        differences += different(release, question, answer)
    share = could_be_told.total() / len(cases)
    print(f"nova {release}: {len(cases)} cases, {dict(counts)}, {len(differences)} differ")
    print(f"unknown, though an API could have told it: {share:.2%}, {dict(could_be_told)}")
    assert not differences, "\n".join(differences)
    assert {Answer.YES, Answer.NO} <= set(counts)
    assert share <= MOST_UNKNOWN, could_be_told
