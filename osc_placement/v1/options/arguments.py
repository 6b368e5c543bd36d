"""Arguments that several commands share, and the parsing of their values.

Every error of a command line is collected before InvalidInput is raised.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence

from osc_placement import errors, microversion

#: The attribute of parsed arguments that lists those which name resource providers.
PROVIDER_ARGUMENTS = "provider_arguments"

_HUNDRED = 100

_SEVERAL = re.compile(r"[\w:]+=[^,=]+(,[\w:]+=[^,=]+)+")

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

    Raises PlacementError.
    """
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise errors.PlacementError(
            f"{path} cannot be read: {errors.file_reason(error)}"
        ) from error


def add_provider(parser: argparse.ArgumentParser, more_help: str = "") -> None:
    """Add the positional provider; its ``dest`` is ``uuid``, as in upstream's commands."""
    parser.add_argument(
        "uuid", metavar="<provider>", help=f"Name or UUID of the resource provider{more_help}"
    )
    name_providers(parser, "uuid")


def name_providers(parser: argparse.ArgumentParser, *names: str) -> None:
    """Declare the arguments (by ``dest``) that name resource providers, by name or UUID."""
    parser.set_defaults(**{PROVIDER_ARGUMENTS: names})


def add_consumer(parser: argparse.ArgumentParser) -> None:
    """Add the positional consumer."""
    parser.add_argument("uuid", metavar="<uuid>", help="UUID of the consumer")


def add_traits(parser: argparse._ActionsContainer, what: str, feature: str) -> None:
    """Add ``--required`` and ``--forbidden``, both repeatable."""
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
    found: dict[str, int] = {}
    for value in values:
        name, equals, amount = value.partition("=")
        if not (name and equals and amount):
            problems.add(f"{RESOURCE_FORM}: {value!r}")
        elif name in found:
            problems.add(f"--resource {name} is given twice")
        else:
            found[name] = integer(amount, value, problems)
    return found


def several_hint(argument: str) -> str:
    """What to do about ``CLASS=AMOUNT,CLASS=AMOUNT``; empty for another argument."""
    form = _SEVERAL.fullmatch(argument)
    options = " ".join(f"--resource {part}" for part in argument.split(",")) if form else ""
    return f"; repeat the option for each resource class: {options}" if form else ""


def integer(text: str, argument: str, problems: errors.InputErrors, minimum: int = 1) -> int:
    """An integer of at least ``minimum``; otherwise 0, and an error in ``problems``."""
    try:
        number = int(text)
    except ValueError:
        problems.add(f"invalid int value: {text!r} in {argument!r}{several_hint(argument)}")
        return 0
    if number < minimum:
        problems.add(f"{number} is less than {minimum} in {argument!r}")
    return number
