# SPDX-License-Identifier: Apache-2.0
"""What checks find: a code, how bad it is, and what it means.

The check that finds a problem defines its code; health and the report read the rest from it.
"""

from __future__ import annotations

import enum
from typing import Self


class Severity(enum.StrEnum):
    """How bad a problem is, the worst first."""

    #: Servers do not start or land wrong, or capacity is lost or sold twice.
    ERROR = "error"
    #: It will hurt later, or may be intended.
    WARNING = "warning"
    #: The area, or a part of it, could not be read, or cannot be known.
    NOT_CHECKED = "not checked"
    MUTED = "muted"
    OK = "ok"


class ProblemCode(str):
    """The code of a problem, a text for programs. ``meaning`` is a sentence for people."""

    severity: Severity
    meaning: str

    def __new__(cls, code: str, severity: Severity, meaning: str) -> Self:
        self = super().__new__(cls, code)
        self.severity, self.meaning = severity, meaning
        return self


def error(code: str, meaning: str) -> ProblemCode:
    """The code of an error."""
    return ProblemCode(code, Severity.ERROR, meaning)


def warning(code: str, meaning: str) -> ProblemCode:
    """The code of a warning."""
    return ProblemCode(code, Severity.WARNING, meaning)
