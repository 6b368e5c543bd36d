"""Arguments that several commands share, and how their values are read.

Reading collects every fault of a command line before it raises InvalidInput.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence

from osc_placement import errors, microversion

RESOURCE_FORM = "Arguments to --resource must be of form <resource_class>=<value>"


def since(feature: str) -> str:
    """The end of an option's help: from which microversion there is such an option."""
    return f" Needs Placement API {microversion.FEATURES[feature]} or later."


def positive(text: str) -> int:
    """An argparse type: a whole number of at least 1."""
    try:
        number = int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"invalid int value: {text!r}") from error
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def non_negative(text: str) -> int:
    """An argparse type: a whole number, 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of 0 or more")
    return int(text)


def add_provider(parser: argparse.ArgumentParser) -> None:
    """The positional provider, kept as ``uuid``, which upstream calls it."""
    parser.add_argument("uuid", metavar="<provider>", help="Name or UUID of the resource provider")


def add_consumer(parser: argparse.ArgumentParser) -> None:
    """The positional consumer."""
    parser.add_argument("uuid", metavar="<uuid>", help="UUID of the consumer")


def add_traits(parser: argparse._ActionsContainer, what: str, feature: str) -> None:
    """``--required`` and ``--forbidden``, repeatable."""
    parser.add_argument(
        "--required",
        metavar="<required>",
        action="append",
        default=[],
        help=(
            f"A trait that {what} must have. May be repeated. Several separated by commas:"
            " at least one of them, from Placement API 1.39." + since(feature)
        ),
    )
    parser.add_argument(
        "--forbidden",
        metavar="<forbidden>",
        action="append",
        default=[],
        help=f"A trait that {what} must not have. May be repeated." + since("forbidden traits"),
    )


def add_aggregates(parser: argparse.ArgumentParser, what: str, feature: str) -> None:
    """``--member-of`` or upstream's hidden ``--aggregate-uuid``, and ``--not-member-of``."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--member-of",
        metavar="<member_of>",
        action="append",
        default=[],
        help=(
            f"UUID of an aggregate that {what} must be in; several separated by commas: at"
            " least one of them. May be repeated from Placement API 1.24, and then all must"
            " hold. A '!' before it forbids (1.32)."
            f"{since(feature)} For example, in agg1 or agg2 and surely in agg3:"
            " --member-of <agg1>,<agg2> --member-of <agg3>"
        ),
    )
    group.add_argument(
        "--aggregate-uuid",
        dest="aggregate_uuid",
        action="append",
        default=[],
        help=argparse.SUPPRESS,
    )
    parser.add_argument(
        "--not-member-of",
        metavar="<aggregate>",
        action="append",
        default=[],
        help=(
            f"UUID of an aggregate that {what} must not be in; several separated by commas:"
            " in none of them. May be repeated." + since("forbidden aggregates")
        ),
    )


def old_aggregates(values: Sequence[str]) -> list[str]:
    """The values of ``--aggregate-uuid`` as one of ``--member-of``: any of them will do."""
    return [",".join(values)] if values else []


def member_of(values: Iterable[str], forbidden: Iterable[str] = ()) -> list[str]:
    """Query values of ``--member-of A,B`` and ``--not-member-of A``, the API's own forms too."""
    return [_alternatives(value) for value in values] + [
        f"!{_alternatives(value)}" for value in forbidden
    ]


def _alternatives(value: str) -> str:
    mark = "!" if value.startswith("!") else ""
    uuids = value.removeprefix("!").removeprefix("in:")
    return f"{mark}in:{uuids}" if "," in uuids else f"{mark}{uuids}"


def required(values: Iterable[str], forbidden: Iterable[str] = ()) -> list[str]:
    """Query values of ``--required A``, ``--required A,B`` and ``--forbidden A``."""
    wanted = [f"in:{value.removeprefix('in:')}" if "," in value else value for value in values]
    return wanted + [f"!{value}" for value in forbidden]


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


def resources(values: Iterable[str], faults: errors.InputErrors) -> dict[str, int]:
    """``{resource class: amount}`` of ``CLASS=AMOUNT`` arguments."""
    found: dict[str, int] = {}
    for value in values:
        name, equals, amount = value.partition("=")
        if not (name and equals and amount):
            faults.add(f"{RESOURCE_FORM}: {value!r}")
        elif name in found:
            faults.add(f"--resource {name} is given twice")
        else:
            found[name] = whole(amount, value, faults)
    return found


def whole(text: str, where: str, faults: errors.InputErrors, least: int = 1) -> int:
    """A whole number of at least ``least``; 0 and a fault when it is none."""
    try:
        number = int(text)
    except ValueError:
        faults.add(f"invalid int value: {text!r} in {where!r}")
        return 0
    if number < least:
        faults.add(f"{number} is less than {least} in {where!r}")
    return number
