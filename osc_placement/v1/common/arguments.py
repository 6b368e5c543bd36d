# SPDX-License-Identifier: Apache-2.0
"""Arguments that several commands share, and the parsing of their values.

Every error of a command line is collected before InvalidInput is raised.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from osc_placement import errors, microversion
from osc_placement.client import lookup, query
from osc_placement.model import command_line, json_text
from osc_placement.model.name import canonical_uuid, is_uuid
from osc_placement.v1.output import help_text

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.model import allocation, candidate
    from osc_placement.workflows.cloud import selector


_REPEATED = "May be repeated"

_HUNDRED = 100

RESOURCE_FORM = "Arguments to --resource must be of form <resource_class>=<value>"


def since(feature: str) -> str:
    """The end of an option's help: the microversion that it needs."""
    return f" Needs Placement API {microversion.FEATURES[feature]} or later."


def positive(text: str) -> int:
    """An argparse type: an integer of at least 1."""
    try:
        number = int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"invalid int value: {text!r}") from error
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


class Share(float):
    """A part of one, as it is typed: ``10%``."""

    def __str__(self) -> str:
        return f"{100 * self:g}%"


def share(text: str) -> Share:
    """An argparse type: ``10%`` or ``2.5`` as a part of one."""
    try:
        part = float(text.removesuffix("%")) / 100
    except ValueError:
        part = -1.0
    if not 0 <= part <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage from 0% to 100%")
    return Share(part)


def non_negative(text: str) -> int:
    """An argparse type: an integer of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer of at least 0")
    return int(text)


def percent(text: str) -> int:
    """An argparse type: an integer from 0 to 100."""
    if not text.isdecimal() or int(text) > _HUNDRED:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 0 to 100")
    return int(text)


def read_file(path: pathlib.Path) -> str:
    """The text of a file that the operator names; ``-`` is standard input.

    Raises PlacementError, which names the file; also for a device.
    """
    try:
        return sys.stdin.read() if str(path) == "-" else json_text.read_bytes(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.PlacementError(
            f"{path} cannot be read: {errors.file_reason(error)}"
        ) from error


def add_flag(group: argparse._ActionsContainer, option: str, text: str) -> None:
    """Add an option without a value."""
    group.add_argument(option, action="store_true", help=text)


def add_file(
    group: argparse._ActionsContainer,
    name: str,
    text: str,
    metavar: str = "<file>",
    **settings: Any,
) -> None:
    """Add an argument that is the path of a file; its ``dest`` has a pathlib.Path."""
    group.add_argument(name, metavar=metavar, type=pathlib.Path, help=text, **settings)


def add_count(
    group: argparse._ActionsContainer,
    option: str,
    text: str,
    metavar: str = "<count>",
    default: int | None = None,
) -> None:
    """Add an option whose value is an integer of at least 1."""
    group.add_argument(option, metavar=metavar, type=positive, default=default, help=text)


def add_max_percent(
    group: argparse._ActionsContainer, limited: str, default: str = "no limit"
) -> None:
    """Add ``--max-percent``; ``limited``: what it limits."""
    group.add_argument(
        "--max-percent",
        metavar="<percent>",
        type=percent,
        help=f"Change nothing if more than this part of {limited} would be removed (default:"
        f" {default}). --allow many overrides it.",
    )


def add_repeated(
    group: argparse._ActionsContainer, option: str, metavar: str, text: str, **settings: Any
) -> None:
    """Add an option whose values are a list, and say in its help that it may be repeated."""
    if _REPEATED not in text:
        text = f"{text} {_REPEATED}."
    group.add_argument(option, metavar=metavar, action="append", default=[], help=text, **settings)


def add_provider(parser: argparse.ArgumentParser, more_help: str = "") -> None:
    """Add the positional provider; its ``dest`` is ``uuid``, as in upstream's commands."""
    parser.add_argument(
        "uuid", metavar="<provider>", help=f"Name or UUID of the resource provider{more_help}"
    )


def add_consumer(parser: argparse.ArgumentParser) -> None:
    """Add the positional consumer."""
    parser.add_argument("uuid", metavar="<uuid>", type=consumer_uuid, help="UUID of the consumer")


def consumer_uuid(text: str) -> str:
    """A UUID in the form in which Placement keeps consumers; any other text as it is.

    Placement finds no allocations of a consumer in another form.
    """
    return canonical_uuid(text) if is_uuid(text) else text


def add_traits(parser: argparse._ActionsContainer, what: str, feature: str) -> None:
    """Add ``--required`` and ``--forbidden``, both repeatable."""
    add_repeated(
        parser,
        "--required",
        "<required>",
        f"A trait that {what} must have. May be repeated. Several separated by commas:"
        " at least one of them, from Placement API 1.39." + since(feature),
    )
    add_repeated(
        parser,
        "--forbidden",
        "<forbidden>",
        f"A trait that {what} must not have. May be repeated." + since("forbidden traits"),
    )


def old_aggregates(values: Sequence[str]) -> list[str]:
    """The values of ``--aggregate-uuid``, as one alternative of ``--member-of``."""
    return [",".join(values)] if values else []


def member_of(values: Iterable[str], forbidden: Iterable[str] = ()) -> list[str]:
    """Query values of ``--member-of A,B`` and ``--not-member-of A``, or the API's own forms."""
    return [_alternatives(value) for value in values] + [
        f"!{_alternatives(value)}" for value in forbidden
    ]


def _alternatives(value: str) -> str:
    mark = "!" if value.startswith("!") else ""
    uuids = value.removeprefix("!").removeprefix("in:")
    return f"{mark}in:{uuids}" if "," in uuids else f"{mark}{uuids}"


def required(values: Iterable[str], forbidden: Iterable[str] = ()) -> list[str]:
    """Query values of ``--required A``, ``--required A,B`` and ``--forbidden A``."""
    traits = [f"in:{value.removeprefix('in:')}" if "," in value else value for value in values]
    return traits + [f"!{value}" for value in forbidden]


def trait_features(
    values: Sequence[str], forbidden: Sequence[str], base: str
) -> Iterator[tuple[str, str]]:
    """``(feature, option)`` for these values of ``--required`` and ``--forbidden``."""
    if values:
        yield base, "--required"
    if any("," in value for value in values):
        yield "any traits", "--required with alternatives"
    if forbidden:
        yield base, "--forbidden"
        yield "forbidden traits", "--forbidden"


def aggregate_features(
    values: Sequence[str], forbidden: Sequence[str], base: str
) -> Iterator[tuple[str, str]]:
    """``(feature, option)`` for these values of ``--member-of`` and ``--not-member-of``."""
    if values:
        yield base, "--member-of"
    if any(value.startswith("!") for value in values):
        yield "forbidden aggregates", "--member-of with !"
    if forbidden:
        yield "forbidden aggregates", "--not-member-of"
    if len(values) + len(forbidden) > 1:
        yield "member_of repeated", "--member-of given twice"


def resources(values: Iterable[str], problems: errors.InputErrors) -> dict[str, int]:
    """``{resource class: amount}`` of ``CLASS=AMOUNT`` arguments."""
    amounts: dict[str, int] = {}
    for value in values:
        name, equals, amount = value.partition("=")
        if not (name and equals and amount):
            problems.add(f"{RESOURCE_FORM}: {value!r}")
        elif name in amounts:
            problems.add(f"--resource {name} is given twice")
        else:
            amounts[name] = integer(amount, value, problems)
    return amounts


def integer(text: str, argument: str, problems: errors.InputErrors, minimum: int = 1) -> int:
    """An integer of at least ``minimum``; otherwise 0, and an error in ``problems``."""
    try:
        number = int(text)
    except ValueError:
        problems.add(f"invalid int value: {text!r} in {argument!r}")
        return 0
    if number < minimum:
        problems.add(f"{number} is less than {minimum} in {argument!r}")
    return number


#: ``{consumer uuid: {provider name or uuid: {resource class: amount}}}``
Parts = dict[str, dict[str, dict[str, int]]]


def add_allocation(parser: argparse.ArgumentParser, text: str) -> None:
    """Add ``--allocation``; ``text`` is its help."""
    add_repeated(parser, "--allocation", "<rp=provider,resource_class=amount,...>", text)


def parse_allocations(
    texts: Iterable[str],
    consumers: Sequence[str],
    problems: errors.InputErrors,
    minimum: int = 1,
) -> Parts:
    """The amounts that the arguments give each of ``consumers``."""
    parts: Parts = {uuid: {} for uuid in consumers}
    for text in texts:
        pairs = [item.partition("=")[::2] for item in text.split(",")]
        fields = dict(pairs)
        provider, consumer = fields.pop("rp", ""), fields.pop("consumer", None)
        consumer = consumer and consumer_uuid(consumer)
        if not provider or not fields or not all(name and amount for name, amount in pairs):
            problems.add(f"Incorrect allocation string format: {text!r}")
        elif len(dict(pairs)) < len(pairs):
            problems.add(f"A name is given twice in {text!r}")
        elif consumer is not None and consumer not in parts:
            problems.add(f"{consumer} in {text!r} is not one of the consumers given")
        else:
            amounts = {
                resource_class: integer(amount, text, problems, minimum)
                for resource_class, amount in fields.items()
            }
            for uuid in consumers if consumer is None else [consumer]:
                _add(parts[uuid], provider, amounts, problems)
    if not all(parts.values()) and not problems.reasons:
        problems.add("At least one resource allocation must be specified")
    return parts


def _add(
    parts: dict[str, dict[str, int]],
    provider: str,
    amounts: Mapping[str, int],
    problems: errors.InputErrors,
) -> None:
    present = parts.setdefault(provider, {})
    for name in amounts.keys() & present.keys():
        problems.add(f"Conflict detected for resource provider {provider} resource class {name}")
    present.update(amounts)


def resolve_allocations(
    client: api.Client, parts: Parts, problems: errors.InputErrors
) -> dict[str, allocation.Allocations]:
    """The amounts by UUID of provider. Raises InvalidInput for all errors so far."""
    texts = [provider for by_provider in parts.values() for provider in by_provider]
    uuids: dict[str, str] = {}
    with problems.collected():
        # A PUT for an unknown provider leaves a consumer, so that a second PUT is refused.
        uuids = lookup.provider_uuids(client, texts)
    problems.check()
    resolved: Parts = {consumer: {} for consumer in parts}
    for consumer, by_provider in parts.items():
        for provider, amounts in by_provider.items():
            _add(resolved[consumer], uuids[provider], amounts, problems)
    problems.check()
    return dict(resolved)


@dataclasses.dataclass
class GroupArguments:
    """The options of one group, as they are on the command line."""

    suffix: str = ""
    resource: list[str] = dataclasses.field(default_factory=list)
    required: list[str] = dataclasses.field(default_factory=list)
    forbidden: list[str] = dataclasses.field(default_factory=list)
    member_of: list[str] = dataclasses.field(default_factory=list)
    not_member_of: list[str] = dataclasses.field(default_factory=list)
    aggregate_uuid: list[str] = dataclasses.field(default_factory=list)
    in_tree: list[str] = dataclasses.field(default_factory=list)


def groups(parsed_args: argparse.Namespace) -> list[GroupArguments]:
    """The groups of a command line; the first one has no suffix."""
    listed: list[GroupArguments] | None = parsed_args.groups
    if listed is None:
        listed = [GroupArguments()]
        parsed_args.groups = listed
    return listed


class InGroup(argparse.Action):
    """An option of a group; ``--group SUFFIX`` starts a group with the options after it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        listed = groups(namespace)
        if self.dest != "group":
            getattr(listed[-1], self.dest).append(values)
            return
        if any(group.suffix == values for group in listed):
            parser.error(f"argument --group: group {values!r} is given twice")
        listed.append(GroupArguments(values))


def group_features(group: GroupArguments) -> Iterator[tuple[str, str]]:
    """``(feature, option)`` that a group requires."""
    if group.suffix:
        numbered = group.suffix.isdecimal()
        yield ("granular groups" if numbered else "string suffixes"), f"--group {group.suffix}"
    yield from trait_features(group.required, group.forbidden, "candidate required traits")
    yield from aggregate_features(aggregates(group), group.not_member_of, "candidate member_of")
    if group.in_tree:
        yield "candidate in_tree", "--in-tree"


def aggregates(group: GroupArguments) -> list[str]:
    """The values of ``--member-of``, and those of ``--aggregate-uuid`` as one alternative."""
    return group.member_of + old_aggregates(group.aggregate_uuid)


def read_group(group: GroupArguments, problems: errors.InputErrors) -> candidate.RequestGroup:
    """The request group; the provider of ``--in-tree`` is not looked up yet."""
    from osc_placement.model import candidate

    traits, forbidden = query.signed(required(group.required, group.forbidden))
    members, not_members = query.signed(member_of(aggregates(group), group.not_member_of))
    title = f"group {group.suffix}" if group.suffix else "the unsuffixed group"
    if len(group.in_tree) > 1:
        problems.add(f"--in-tree is given twice for {title}")
    return candidate.RequestGroup(
        suffix=group.suffix,
        resources=resources(group.resource, problems),
        required=traits,
        forbidden=forbidden,
        member_of=members,
        forbidden_aggregates=not_members,
        in_tree=group.in_tree[-1] if group.in_tree else None,
    )


#: What a batch operation does with an empty selection, and a list.
REQUIRED = "An empty selection is an error."
OPTIONAL = "Without options all providers match."


def add_selector(parser: argparse.ArgumentParser, empty: str = REQUIRED) -> None:
    """Add the arguments of SELECTOR; ``empty`` describes an empty selection."""
    group = parser.add_argument_group(
        help_text.SELECTION if empty == REQUIRED else "which providers to list",
        f"A provider must match every option that is given. {empty}",
    )
    group.add_argument(
        "providers", metavar="<provider>", nargs="*", help="Name or UUID of a resource provider"
    )
    group.add_argument(
        "--providers-from",
        metavar="<file>",
        help="File with more provider names or UUIDs, one per line; - is standard input",
    )
    _add_conditions(group)
    add_flag(
        group,
        "--unused",
        "Providers from which nothing is allocated. One request for each provider that"
        " matches the other options.",
    )
    group.add_argument(
        "--all", dest="everything", action="store_true", help="Every provider of the cloud"
    )


def _add_conditions(group: argparse._ArgumentGroup) -> None:
    """The options that compare properties of a provider."""
    add_repeated(
        group,
        "--member-of",
        "<aggregate>",
        "Members of this aggregate: a UUID, or the name or id of a nova host aggregate."
        " Several separated by commas: members of at least one. With '!' before it: not a"
        " member. May be repeated; all conditions must hold. A change refuses a name if nova has"
        " other hosts in the aggregate than Placement.",
    )
    add_repeated(
        group,
        "--not-member-of",
        "<aggregate>",
        "Providers that are not a member of this aggregate.",
    )
    group.add_argument("--in-tree", metavar="<provider>", help="Providers in this provider's tree")
    add_traits(group, "the provider", "provider required traits")
    add_repeated(
        group,
        "--name-glob",
        "<pattern>",
        "Providers with a name that matches this pattern, as in ``rack1-*``. May be"
        " repeated; one pattern must match.",
    )


def read_selector(parsed_args: argparse.Namespace) -> selector.Selector:
    """The selection of a command line. Raises PlacementError for an unreadable file."""
    from osc_placement.workflows.cloud import selector

    return selector.Selector(
        providers=(*parsed_args.providers, *_from_file(parsed_args.providers_from)),
        member_of=tuple(member_of(parsed_args.member_of, parsed_args.not_member_of)),
        in_tree=parsed_args.in_tree,
        required=tuple(required(parsed_args.required)),
        forbidden=tuple(parsed_args.forbidden),
        name_globs=tuple(parsed_args.name_glob),
        everything=parsed_args.everything,
        unused=parsed_args.unused,
    )


def selector_features(parsed_args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """``(feature, option)`` that the selection requires."""
    if parsed_args.in_tree is not None:
        yield "nested providers", "--in-tree"
    yield from trait_features(
        parsed_args.required, parsed_args.forbidden, "provider required traits"
    )
    yield from aggregate_features(
        parsed_args.member_of, parsed_args.not_member_of, "provider member_of"
    )


def _from_file(path: str | None) -> tuple[str, ...]:
    from osc_placement.workflows.cloud import selector

    if path is None:
        return ()
    names = selector.provider_lines(read_file(pathlib.Path(path)).splitlines())
    if not names:
        where = "standard input" if path == "-" else path
        raise errors.PlacementError(f"--providers-from: {where} contains no provider")
    return names


#: How a host is named, for the help of options that accept providers too.
FORMS = " Nova's name of the host, or name or UUID of a provider. May be repeated."


def add_hosts(group: argparse._ActionsContainer, selected: str, host_aggregate: str = "") -> None:
    """Add ``--host``, and ``--host-aggregate`` if there is a text for it, both repeatable.

    ``selected`` says what a host selects.
    """
    add_repeated(group, "--host", "<host>", f"{selected} this host.{FORMS}")
    if host_aggregate:
        text = f"{host_aggregate}: name, id or UUID."
        add_repeated(group, "--host-aggregate", "<aggregate>", text)


def typed(
    parsed_args: argparse.Namespace, actions: Iterable[argparse.Action]
) -> tuple[list[str], list[command_line.Option]]:
    """The subjects and options of these arguments; those with their default are omitted."""
    subjects: list[str] = []
    options: list[command_line.Option] = []
    for action in actions:
        value = getattr(parsed_args, action.dest)
        if value == action.default or action.help == argparse.SUPPRESS:
            continue
        items = value if isinstance(value, list) else [value]
        if action.option_strings:
            option = action.option_strings[-1]
            options += [(option, None if item is True else str(item)) for item in items]
        else:
            subjects += map(str, items)
    return subjects, options
