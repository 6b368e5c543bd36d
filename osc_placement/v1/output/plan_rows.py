"""The rows of plans and of their results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cliff import columns

from osc_placement.v1.output import rows

if TYPE_CHECKING:
    from osc_placement.plan import result

COLUMNS = ("name", "uuid", "before", "after", "status", "reason", "code")


class Facts(columns.FormattableColumn[Any]):
    """``{key: value}``; a table shows ``VCPU:total=4`` or ``no CUSTOM_A``, one fact per line."""

    def __init__(self, facts: Mapping[str, Any], lines: Iterable[str]) -> None:
        super().__init__(dict(facts))
        self._lines = lines

    def human_readable(self) -> str:
        return "\n".join(self._lines)


class Reasons(columns.FormattableColumn[str]):
    """Reasons, separated by semicolons; a table shows one reason per line, and their code."""

    def __init__(self, reasons: str, code: str = "") -> None:
        super().__init__(reasons)
        self._code = code

    def human_readable(self) -> str:
        lines = self._value.split("; ")
        return "\n".join([*lines, f"[{self._code}]"] if self._code else lines)


class ResultRows(Collection[rows.Row]):
    """The values of COLUMNS for each result. ``names`` is ``{provider uuid: name}``.

    A row exists only while it is printed: those of 100,000 results need 100 MiB.
    """

    def __init__(self, results: Sequence[result.ChangeResult], names: Mapping[str, str]) -> None:
        self._results, self._names = results, names

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[rows.Row]:
        return (_row(item, self._names) for item in self._results)

    def __contains__(self, row: object) -> bool:
        return any(row == each for each in self)


def _row(item: result.ChangeResult, names: Mapping[str, str]) -> rows.Row:
    """The column of the UUID is None for kinds whose subjects have only a name, such as traits."""
    from osc_placement.plan.kinds import registry

    return (
        item.subject.name,
        item.subject.uuid if registry.CHANGE_TYPES[item.kind].has_uuid else None,
        *_facts(item, names),
        str(item.status),
        Reasons(item.reason, item.code),
        str(item.code),
    )


def _facts(item: result.ChangeResult, names: Mapping[str, str]) -> tuple[Facts, Facts]:
    """The cells of both states; tables show names instead of UUIDs."""
    from osc_placement.plan.kinds import base, registry

    kind = registry.CHANGE_TYPES[item.kind]
    facts = registry.facts(item.kind, item.before, item.after)
    named = registry.facts(item.kind, item.before, item.after, names)
    return (
        Facts({fact.key: fact.before for fact in facts}, kind.describe(base.before_side(named))),
        Facts({fact.key: fact.after for fact in facts}, kind.describe(base.after_side(named))),
    )
