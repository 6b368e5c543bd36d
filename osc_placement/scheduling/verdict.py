# SPDX-License-Identifier: Apache-2.0
"""What all rules of nova say about a case: before the scheduler, and on each host. Pure.

``refusal`` is the verdict of nova-api and the conductor, ``check_hosts`` that of the filters and of
the target. Whether Placement has a candidate is the caller's part: nova's queries are those of
``request``.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from osc_placement.model.name import and_more
from osc_placement.nova import values
from osc_placement.scheduling import filters, nova_options
from osc_placement.scheduling.answer import Answer, Caveats, NotKnown, Verdict
from osc_placement.scheduling.api_rules import API_RULES, TARGET_RULES
from osc_placement.scheduling.case import Case
from osc_placement.scheduling.rule import Host, Rule, Stage
from osc_placement.scheduling.server_hosts import ServerHosts

#: All rules of nova but the parts of its query, in the order in which nova applies them.
RULES: tuple[Rule, ...] = (
    *API_RULES,
    *filters.FILTER_RULES,
    *filters.CONFIGURED_RULES,
    *TARGET_RULES,
)

#: Refused hosts that a text names for each reason.
_MOST_NAMED = 3


class Says(enum.StrEnum):
    """What a rule says about hosts."""

    ACCEPTS = "accepts"
    REFUSES = "refuses"
    NOT_CHECKED = "not checked"


@dataclasses.dataclass(frozen=True, slots=True)
class RuleCheck:
    """What a rule says about hosts, each by the name of its root provider.

    ``refused`` is ``{host: why}``, ``unknown`` ``{host: which fact is not known}``. ``is_enabled``
    is None if it is not known whether nova uses the filter: it is no default filter, and no
    nova.conf is given.
    """

    rule: str
    refused: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unknown: Mapping[str, str] = dataclasses.field(default_factory=dict)
    is_enabled: bool | None = True

    @property
    def says(self) -> Says:
        """The verdict of the rule about all hosts together."""
        if self.unknown:
            return Says.NOT_CHECKED
        return Says.REFUSES if self.refused else Says.ACCEPTS

    @property
    def text(self) -> str:
        """The evidence: ``disabled: cmp-7; down: cmp-9, cmp-10, cmp-11 and 4 more``."""
        hosts: dict[str, list[str]] = {}
        for name, why in self.refused.items():
            hosts.setdefault(why, []).append(name)
        parts = [f"{why}: {and_more(names, _MOST_NAMED)}" for why, names in hosts.items()]
        text = "; ".join([*parts, *dict.fromkeys(self.unknown.values())])
        return text if self.is_enabled else f"if enabled: {text}"

    def about(self, host: str) -> Verdict:
        """What the rule says about one host."""
        prefix = "" if self.rule in _PLAIN else f"{self.rule}: "
        if host in self.refused:
            if self.is_enabled:
                return Verdict((prefix + self.refused[host],))
            return Verdict(unknown=(f"{self.rule}: nova.conf says whether it is enabled",))
        return (
            Verdict(unknown=(prefix + self.unknown[host],)) if host in self.unknown else Verdict()
        )


#: The rules whose sentences need no name.
_PLAIN = frozenset({filters.COMPUTE, *(rule.name for rule in TARGET_RULES)})


def refusal(case: Case) -> Verdict:
    """What nova-api and the conductor say about a case, whatever the target."""
    total = Verdict()
    for rule in API_RULES:
        total += rule.verdict(case, Host())
        if total.refused:
            return Verdict(total.refused)
    return total


def refusing_rule(case: Case) -> str:
    """The name of the rule by which nova-api refuses a case; empty if none does for certain."""
    return next((rule.name for rule in API_RULES if rule.verdict(case, Host()).refused), "")


class HostList:
    """The hosts of ``{name: UUID}`` of root providers, each by the name of its root provider."""

    def __init__(
        self,
        compute: ServerHosts,
        aggregates: Iterable[values.HostAggregate],
        roots: Mapping[str, str],
    ) -> None:
        listed: dict[str, list[values.HostAggregate]] = collections.defaultdict(list)
        for aggregate in aggregates:
            for host in aggregate.hosts:
                listed[host].append(aggregate)
        self.hosts: dict[str, Host] = {}
        self.profiles: dict[object, list[str]] = collections.defaultdict(list)
        for name, uuid in roots.items():
            node = compute.node(uuid)
            host = node.host if node else ""
            of_host = None if compute.hosts is None else tuple(listed.get(host, ()))
            checked = Host(uuid, host, node, of_host, node.servers if node else None)
            self.hosts[name] = checked
            self.profiles[checked.profile].append(name)


def check_hosts(case: Case, hosts: HostList) -> list[RuleCheck]:
    """What each rule says about some hosts.

    The target and the ComputeFilter come first; the others are checked about the hosts that these
    accept. With a nova.conf the filters are those that it enables; without one, a filter that nova
    does not enable by default is left out if it accepts all hosts.
    """
    was_read = case.compute.hosts is not None
    gone: set[str] = set()
    checks = []
    for rule in TARGET_RULES:
        check = _check(rule, True, case, hosts, gone)
        if check.refused or check.unknown:
            checks.append(check)
    gone.update(*(check.refused for check in checks))
    checks.append(_check(filters.FILTER_RULES[0], True, case, hosts, gone))
    gone.update(checks[-1].refused)
    for rule, is_enabled in enabled(case):
        check = _check(rule, is_enabled, case, hosts, gone)
        if is_enabled or check.refused or (check.unknown and was_read):
            checks.append(check)
    return checks


def _check(
    rule: Rule, is_enabled: bool | None, case: Case, hosts: HostList, gone: Collection[str]
) -> RuleCheck:
    """What a rule says about hosts, without those that are ``gone``."""
    verdicts: dict[str, Verdict] = {}
    if rule.by_host:
        verdicts = {name: rule.verdict(case, host) for name, host in hosts.hosts.items()}
    else:
        for names in hosts.profiles.values():
            verdict = rule.verdict(case, hosts.hosts[names[0]])
            if verdict.refused or verdict.unknown:
                verdicts |= dict.fromkeys(names, verdict)
    left = [(name, verdict) for name, verdict in verdicts.items() if name not in gone]
    return RuleCheck(
        rule.name,
        {name: verdict.text for name, verdict in left if verdict.refused},
        {name: verdict.text for name, verdict in left if verdict.answer is Answer.UNKNOWN},
        is_enabled,
    )


def check_services(compute: ServerHosts, hosts: HostList) -> list[RuleCheck]:
    """What the ComputeFilter says of a query that is not nova's; nothing if nova was not read."""
    if compute.hosts is None:
        return []
    reasons = {name: compute.why_not(host.uuid) for name, host in hosts.hosts.items()}
    return [RuleCheck(filters.COMPUTE, {name: why for name, why in reasons.items() if why})]


def enabled(case: Case) -> Iterator[tuple[Rule, bool | None]]:
    """The filters besides the ComputeFilter, and whether nova uses them: None is not known."""
    names = case.options.enabled_filters
    if names is None:
        for rule in filters.FILTER_RULES[1:]:
            yield rule, rule.is_always or rule.name in nova_options.DEFAULT_FILTERS or None
        return
    by_name = {rule.name: rule for rule in (*filters.FILTER_RULES, *filters.CONFIGURED_RULES)}
    for name in dict.fromkeys(names):
        if name != filters.COMPUTE:
            yield by_name.get(name) or _without_rule(name), True
    for rule in filters.FILTER_RULES:
        if rule.is_always and rule.name not in names:
            yield rule, True


def _without_rule(name: str) -> Rule:
    """A filter of nova.conf that reads only hints, or about which nothing is known."""

    def check(case: Case, _: Host, __: int) -> str:
        if name == filters.ALL_HOSTS or (name in filters.OF_HINTS and case.server is None):
            return ""
        if name in filters.OF_HINTS:
            raise NotKnown("nova does not show the scheduler hints of a server")
        raise NotKnown("this filter is not known")

    return Rule(name, Stage.FILTER, check)


def merged(first: Sequence[RuleCheck], second: Sequence[RuleCheck]) -> list[RuleCheck]:
    """What the rules say about the hosts of two queries for one case."""
    by_rule = {check.rule: check for check in first}
    for check in second:
        other = by_rule.get(check.rule, check)
        by_rule[check.rule] = dataclasses.replace(
            check,
            refused={**check.refused, **other.refused},
            unknown={**check.unknown, **other.unknown},
        )
    return list(by_rule.values())


def about(checks: Sequence[RuleCheck], names: Iterable[str]) -> dict[str, Verdict]:
    """``{host: what all rules say about it}``."""
    return {name: sum((check.about(name) for check in checks), Verdict()) for name in names}


def refused(checks: Iterable[RuleCheck]) -> dict[str, str]:
    """``{host: reason}`` for the hosts that a rule certainly refuses."""
    reasons: dict[str, str] = {}
    for check in checks:
        for name in check.refused if check.is_enabled else ():
            reasons.setdefault(name, check.about(name).text)
    return reasons


def not_checked(checks: Sequence[RuleCheck], candidates: Collection[str]) -> Caveats:
    """What is not known about the hosts that no rule certainly refuses.

    It can turn the answer if it is about all of them.
    """
    verdicts = about(checks, candidates)
    texts = tuple(dict.fromkeys(text for verdict in verdicts.values() for text in verdict.unknown))
    if all(verdict.unknown for verdict in verdicts.values()):
        return Caveats(texts)
    return Caveats(notes=texts)
