# SPDX-License-Identifier: Apache-2.0
"""What to type for the changes of an explanation. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from osc_placement.model import command_line
from osc_placement.nova.flavor import EXTRA_SPECS
from osc_placement.nova.values import HostAggregate
from osc_placement.plan import guards
from osc_placement.scheduling.request import NovaRequest
from osc_placement.workflows.explain.changes import Action, SmallestChange, Step
from osc_placement.workflows.explain.explain import Explanation

#: What to type for a step: the command, and its options.
_COMMANDS: Mapping[Action, tuple[str, Mapping[str, str | None]]] = {
    Action.FREE: ("resource provider show", {"--allocations": None}),
    Action.RAISE: (
        "resource provider inventory amend",
        {"--resource": "{name}:{field}={value:.15g}"},
    ),
    Action.AMEND: ("resource provider inventory amend", {"--resource": "{name}:{field}={amount}"}),
    Action.ADD_TRAIT: ("resource provider trait add", {"--trait": "{name}"}),
    Action.REMOVE_TRAIT: ("resource provider trait remove", {"--trait": "{name}"}),
    Action.JOIN: ("resource provider aggregate add", {"--aggregate": "{name}"}),
    Action.LEAVE: ("resource provider aggregate remove", {"--aggregate": "{name}"}),
}

#: What to type instead where nova has the host aggregate, which it mirrors to Placement.
_NOVA_COMMANDS = {Action.JOIN: "aggregate add host", Action.LEAVE: "aggregate remove host"}

#: ``{UUID: nova's host aggregate}``.
Aggregates = Mapping[str, HostAggregate]


def commands(
    item: SmallestChange,
    explanation: Explanation,
    aggregates: Aggregates,
    asked: NovaRequest | None = None,
) -> list[str]:
    """What to type for a change, a command for each step.

    ``asked`` is nova's request: a part of it that an extra spec of the flavor adds can be unset,
    for new servers.
    """
    if item.steps or asked is None or asked.server.uuid is not None:
        return [_command(step, explanation, aggregates) for step in item.steps]
    parts = [*item.removed, *(part for part, amount in item.amounts.items() if not amount)]
    sources = [asked.sources[part] for part in parts if part in asked.sources]
    is_whole = len(sources) == len(item.removed) + len(item.amounts)
    if not is_whole or any(source.step != EXTRA_SPECS for source in sources):
        return []
    keys = dict.fromkeys(source.origin.partition("=")[0] for source in sources)
    options = [("--property", key) for key in keys]
    return [command_line.line("flavor unset", asked.server.flavor_name or "", options=options)]


def _command(step: Step, explanation: Explanation, aggregates: Aggregates) -> str:
    action, host = step.action, explanation.nova_hosts.get(step.provider)
    named, aggregate = host or step.provider, aggregates.get(step.name)
    if action is Action.ENABLE:
        options: dict[str, str | None] = {"--enable": None}
        return command_line.line(
            "compute service set", named, "nova-compute", options=options.items()
        )
    if action is Action.MIRROR:
        options = {"--host-aggregate": step.name}
        return command_line.line("placement aggregate mirror", options=options.items())
    if aggregate is not None and host is not None and action in _NOVA_COMMANDS:
        is_member = host in aggregate.hosts
        if is_member == (action is Action.LEAVE):
            return command_line.line(_NOVA_COMMANDS[action], aggregate.subject, host)
    command, templates = _COMMANDS[action]
    fields = {key: getattr(step, key) for key in ("name", "field", "amount", "value")}
    options = {key: text and text.format(**fields) for key, text in templates.items()}
    if action is Action.REMOVE_TRAIT and not step.name.startswith("CUSTOM_"):
        options["--allow"] = guards.STANDARD_TRAITS
    subject = command_line.subject(step.provider, explanation.uuids[step.provider])
    return command_line.line(command, subject, options=options.items())
