"""The texts of an explanation."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from osc_placement.model.inventory import Inventory
    from osc_placement.nova.values import HostAggregate
    from osc_placement.workflows.explain.changes import Change, Step
    from osc_placement.workflows.explain.nova_filters import Judgement
    from osc_placement.workflows.explain.values import Failure

#: What a failure says; ``{names}`` are its class, traits, aggregates or suffixes.
_REASONS = {
    "no_inventory": "no inventory of {names}",
    "min_unit": "{names}: min_unit is {available}",
    "max_unit": "{names}: max_unit is {available}",
    "step_size": "{names}: step_size is {available}",
    "capacity": "{names}: {free} free",
    "required": "lacks {names}",
    "forbidden": "has {names}",
    "member_of": "not in aggregate {names}",
    "forbidden_aggregate": "in aggregate {names}",
    "in_tree": "not in the tree of {names}",
    "root_required": "the root lacks {names}",
    "root_forbidden": "the root has {names}",
    "no_provider": "no provider of its tree takes part",
    "group_required": "no combination of providers has all traits",
    "combined_capacity": "not enough capacity for all groups together",
    "isolate": "too few providers for group_policy=isolate",
    "same_subtree": "no providers of one subtree (same_subtree)",
    "not_nested": "several providers of one tree are needed",
    "combination": "no combination of providers fits",
}


def failure(item: Failure) -> str:
    """Why a host fails: ``VCPU: 2 free, 8 requested (total 64, ...)``."""
    text = _REASONS[str(item.reason)].format(
        names=_names(item), free=item.free, available=_limit(item)
    )
    if item.requested is not None:
        text += f", {item.requested} requested"
    if item.inventory is not None:
        text += f" ({_amounts(item.inventory, item.used or 0)})"
    return f"{text}: {item.detail}" if item.detail else text


def _names(item: Failure) -> str:
    joined = " or ".join(item.names) if str(item.reason) in {"required", "member_of"} else None
    return joined or " and ".join(item.names)


def _limit(item: Failure) -> Any:
    field = str(item.reason)
    return getattr(item.inventory, field, None) if item.inventory is not None else None


def _amounts(held: Inventory, used: int) -> str:
    fields = [f"total {held.total}"]
    if held.reserved:
        fields.append(f"reserved {held.reserved}")
    if held.allocation_ratio != 1:
        fields.append(f"ratio {held.allocation_ratio:g}")
    return ", ".join([*fields, f"used {used}"])


#: What a step of a change says.
_STEPS = {
    "free": "free {amount} {name} on {provider}",
    "raise": "raise the capacity of {name} on {provider} by {amount}",
    "amend": "set {field} of {name} on {provider} to {amount}",
    "add_trait": "add the trait {name} to {provider}",
    "remove_trait": "remove the trait {name} from {provider}",
    "enable": "enable the compute service of {provider}",
    "mirror": "mirror nova's host aggregate {name}, which has {provider}, to Placement",
    "join": "add {provider} to the aggregate {name}",
    "leave": "remove {provider} from the aggregate {name}",
}

#: What to type for a step.
_COMMANDS = {
    "free": "openstack resource provider show --allocations {provider}",
    "raise": "openstack resource provider inventory amend {provider} --resource"
    " {name}:{field}={value:g}",
    "amend": "openstack resource provider inventory amend {provider} --resource"
    " {name}:{field}={amount}",
    "add_trait": "openstack resource provider trait add {provider} --trait {name}",
    "remove_trait": "openstack resource provider trait remove {provider} --trait {name}",
    "enable": "openstack compute service set --enable {host} nova-compute",
    "mirror": "openstack placement aggregate mirror --host-aggregate {name} --host {host}",
    "join": "openstack resource provider aggregate add {provider} --aggregate {name}",
    "leave": "openstack resource provider aggregate remove {provider} --aggregate {name}",
}

#: What to type instead where nova has the host aggregate, which it mirrors to Placement.
_NOVA_COMMANDS = {
    "join": "openstack aggregate add host {aggregate} {host}",
    "leave": "openstack aggregate remove host {aggregate} {host}",
}

#: ``{UUID: nova's host aggregate}``.
Aggregates = Mapping[str, "HostAggregate"]


def with_names(text: str, aggregates: Aggregates) -> str:
    """A text with the names of host aggregates after their UUIDs."""
    for uuid, aggregate in aggregates.items():
        if uuid in text:
            text = text.replace(uuid, f"{uuid} ({aggregate.name})")
    return text


def commands(item: Change, hosts: Mapping[str, str], aggregates: Aggregates) -> list[str]:
    """What to type for a change, a command for each step; ``{provider: nova's host}``."""
    return [_command(step, hosts.get(step.provider), aggregates) for step in item.steps]


def _command(step: Step, host: str | None, aggregates: Aggregates) -> str:
    action, aggregate = str(step.action), aggregates.get(step.name)
    template = _COMMANDS[action]
    if aggregate is not None and host is not None:
        is_member = host in aggregate.hosts
        if is_member == (action == "leave"):
            template = _NOVA_COMMANDS.get(action, template)
    return template.format(
        provider=_quoted(step.provider),
        name=step.name,
        field=step.field,
        amount=step.amount,
        value=step.value,
        host=_quoted(host or step.provider),
        aggregate=_quoted(aggregate.name) if aggregate else "",
    )


def _quoted(text: str) -> str:
    return shlex.quote(text)


def change(item: Change) -> str:
    """What to change: ``remove required=CUSTOM_X; request VCPU:12 instead of 16``."""
    if item.steps:
        return "; ".join(
            _STEPS[str(step.action)].format(
                provider=step.provider, name=step.name, field=step.field, amount=step.amount
            )
            for step in item.steps
        )
    parts = [f"remove {each}" for each in item.removed]
    for each, amount in item.amounts.items():
        name = f"{each.names[0]}{f' in group {each.suffix}' if each.suffix else ''}"
        if amount:
            parts.append(f"request {amount} {name} instead of {each.amount}")
        else:
            parts.append(f"request no {name}")
    return "; ".join(parts)


#: Refused hosts that a text names for each reason.
_MOST_NAMED = 3


def judgement(item: Judgement) -> str:
    """The evidence: ``disabled: cmp-7; down: cmp-9, cmp-10, cmp-11 and 4 more``."""
    hosts: dict[str, list[str]] = {}
    for name, why in item.refused.items():
        hosts.setdefault(why, []).append(name)
    parts = [f"{why}: {_first(names)}" for why, names in hosts.items()]
    text = "; ".join(parts) or item.reason
    return text if item.is_enabled else f"if enabled: {text}"


def _first(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
