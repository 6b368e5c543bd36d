# SPDX-License-Identifier: Apache-2.0
"""What nova's filters say about each host of a state, for many servers. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from osc_placement.engine import state
from osc_placement.scheduling import verdict
from osc_placement.scheduling.answer import Answer
from osc_placement.scheduling.case import Case, Way
from osc_placement.scheduling.server_hosts import ServerHosts


@dataclasses.dataclass(frozen=True, slots=True)
class HostAnswers:
    """The hosts (root UUIDs) that do not take a server, and why; those where facts are not known.

    Hosts in neither mapping take it, as far as Placement has room. ``only_live`` are refused to a
    live migration, and not to a cold one.
    """

    refused: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unknown: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    key: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
    only_live: frozenset[str] = frozenset()


#: Of a server of which nova was not asked.
NO_ANSWERS = HostAnswers()


class HostVerdicts:
    """Checks all hosts of a state; cases that no rule tells apart are checked once.

    The group of a server is left out: who is on which host changes with each move. Its own host
    is no target either way: a planner leaves out the hosts that it clears.
    """

    def __init__(self, base: state.CloudState, compute: ServerHosts) -> None:
        self._compute = compute
        self._roots = {base.providers[root].name: root for root in base.tree}
        self._hosts: verdict.HostList | None = None
        self._answers: dict[object, HostAnswers] = {}

    def of(self, case: Case) -> HostAnswers:
        """What the filters say about the hosts. Errors: none; a fact that is missing is unknown."""
        key = _key(case)
        if key not in self._answers:
            if self._hosts is None:
                self._hosts = verdict.HostList(self._compute, case.aggregates, self._roots)
            alike = dataclasses.replace(case, group=None, may_stay=True, compute=self._compute)
            checks = verdict.check_hosts(alike, self._hosts)
            if case.server is None:
                # A flavor has no project; of a filter that may be off that is no doubt.
                checks = [check for check in checks if check.is_enabled or check.refused]
            answers = verdict.about(checks, self._roots)
            refused = {self._roots[name]: it.text for name, it in answers.items() if it.refused}
            unknown = {
                self._roots[name]: it.unknown
                for name, it in answers.items()
                if it.answer is Answer.UNKNOWN
            }
            hosts = frozenset(refused), frozenset(unknown)
            only_live = frozenset[str]()
            if refused and case.way is Way.LIVE_MIGRATE:
                cold = self.of(dataclasses.replace(case, way=Way.MIGRATE))
                only_live = hosts[0] - cold.refused.keys()
            self._answers[key] = HostAnswers(refused, unknown, hosts, only_live)
        return self._answers[key]


def _key(case: Case) -> object:
    """Equal for cases that no rule tells apart."""
    spec = case.spec
    image = None if spec.image is None else tuple(sorted(spec.image.items()))
    source: object = tuple((node.hypervisor, node.architecture) for node in case.source_nodes)
    is_zone_hidden = case.server is not None and not case.server.shows_zone
    return (
        tuple(sorted(spec.flavor.extra_specs.items())),
        (spec.flavor_name, spec.project_id, spec.availability_zone, spec.image_id),
        (image, spec.why_no_image, is_zone_hidden and case.source),
        (source, case.way is Way.LIVE_MIGRATE, case.releases),
    )
