# SPDX-License-Identifier: Apache-2.0
"""The command lines that are printed, recorded or written into a file for somebody to type. Pure.

A name may look like an option, a UUID or a piece of a script. ``subject`` gives the text that
selects a provider and nothing else; ``line`` quotes, and puts ``--`` before a word that begins
with a dash. A line has only printable characters: those that a terminal would obey are escaped.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterable

from osc_placement.model import name as names

#: A value of an option; None for an option without one.
Option = tuple[str, str | None]

#: Subjects of a command line that a table shows.
_MOST_SUBJECTS = 3

#: A word of a recorded command line, with its quotes.
_WORD = re.compile(r"""(?:\$'(?:\\.|[^'\\])*'|'[^']*'|"[^"]*"|[^\s'"])+""")

#: A name that is read in one way only, by a person, a shell and a parser of options.
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]{0,199}")


def subject(name: str, uuid: str) -> str:
    """The word that selects a provider: its name where that is plain, else its UUID."""
    return name if _PLAIN.fullmatch(name) and not names.is_uuid(name) else uuid


def words(subjects: Iterable[str], options: Iterable[Option] = ()) -> list[str]:
    """The words after the name of a command: ``--option=value``, then the subjects."""
    last = list(subjects)
    first = [option if value is None else f"{option}={value}" for option, value in options]
    return [*first, *(["--"] if any(word.startswith("-") for word in last) else []), *last]


def line(command: str, *subjects: str, options: Iterable[Option] = ()) -> str:
    """The command line of a command of ``openstack``, whose name needs no quotes."""
    return " ".join(["openstack", command, *map(quote, words(subjects, options))])


def brief(command: str) -> str:
    """A recorded command line for people: of many names the first ones, and their number."""
    parts = _WORD.findall(command)
    options = [number for number, word in enumerate(parts) if word.startswith("-")]
    if "--" in parts:
        options = options[: options.index(parts.index("--")) + 1]
    # Commands of four words need an option.
    first, last = (options[0], options[-1]) if options else (3, 2)
    names = [
        word.partition("=")[0] if number <= last else "names"
        for number, word in enumerate(parts[first:], first)
    ]
    shown = parts[:first]
    for name, run in itertools.groupby(zip(names, parts[first:], strict=True), lambda of: of[0]):
        several = [word for _, word in run]
        is_long = len(several) > _MOST_SUBJECTS
        shown += [*several[:_MOST_SUBJECTS], f"... ({len(several)} {name})"] if is_long else several
    return " ".join(shown)


def quote(word: str) -> str:
    """A word for a POSIX shell; in the form ``$'...'`` if it has characters to escape."""
    if word.isprintable():
        return shlex.quote(word)
    return f"$'{''.join(map(_escaped, word))}'"


def _escaped(char: str) -> str:
    """A character inside ``$'...'``; in octal, because hexadecimal digits have no end there."""
    if char in "\\'":
        return f"\\{char}"
    if char.isprintable():
        return char
    return "".join(f"\\{byte:03o}" for byte in char.encode(errors="surrogatepass"))
