"""The ``--allocation rp=PROVIDER,CLASS=AMOUNT,…`` argument: parsing and provider names."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from osc_placement import errors
from osc_placement.client import lookup
from osc_placement.v1.options import arguments

if TYPE_CHECKING:
    from osc_placement.client import api
    from osc_placement.model import allocation

#: ``{consumer uuid: {provider name or uuid: {resource class: amount}}}``
Parts = dict[str, dict[str, dict[str, int]]]


def add(parser: argparse.ArgumentParser, text: str) -> None:
    """Add the argument; ``text`` is its help."""
    parser.add_argument(
        "--allocation",
        metavar="<rp=provider,resource_class=amount,...>",
        action="append",
        default=[],
        help=text,
    )


def parse(
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
        if not provider or not fields or not all(name and amount for name, amount in pairs):
            problems.add(f"Incorrect allocation string format: {text!r}")
        elif len(dict(pairs)) < len(pairs):
            problems.add(f"A name is given twice in {text!r}")
        elif consumer is not None and consumer not in parts:
            problems.add(f"{consumer} in {text!r} is not one of the consumers given")
        else:
            amounts = {n: arguments.integer(a, text, problems, minimum) for n, a in fields.items()}
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
    known = parts.setdefault(provider, {})
    for name in amounts.keys() & known.keys():
        problems.add(f"Conflict detected for resource provider {provider} resource class {name}")
    known.update(amounts)


def resolve(
    client: api.Client, parts: Parts, problems: errors.InputErrors
) -> dict[str, allocation.Allocations]:
    """The same with UUIDs of providers. Raises InvalidInput for all errors so far."""
    texts = [provider for given in parts.values() for provider in given]
    uuids: dict[str, str] = {}
    with problems.collected():
        # A PUT for an unknown provider leaves a consumer, so that a second PUT is refused.
        uuids = lookup.provider_uuids(client, texts, check=True)
    problems.check()
    found: Parts = {consumer: {} for consumer in parts}
    for consumer, given in parts.items():
        for provider, amounts in given.items():
            _add(found[consumer], uuids[provider], amounts, problems)
    problems.check()
    return dict(found)
