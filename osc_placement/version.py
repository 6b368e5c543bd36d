# SPDX-License-Identifier: Apache-2.0
"""Names of upstream's ``osc_placement.version``, for plugins that import them. Deprecated.

The next release removes this module: use ``osc_placement.microversion``. A predicate, such as
``ge("1.5")``, is a function of a version: it gives True or the text of an error.
"""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from osc_placement import microversion

warnings.warn(
    "osc_placement.version is deprecated and will be removed in osc-placement 6: use"
    " osc_placement.microversion",
    DeprecationWarning,
    stacklevel=2,
)

R = TypeVar("R")
Predicate = Callable[[str], "bool | str"]

NEGOTIATE_VERSIONS = ["1"]
SUPPORTED_MICROVERSIONS = [
    f"{microversion.MINIMUM.major}.{minor}" for minor in range(microversion.MAXIMUM.minor + 1)
]
SUPPORTED_VERSIONS = SUPPORTED_MICROVERSIONS + NEGOTIATE_VERSIONS
MAX_VERSION_NO_GAP = str(microversion.UNPINNED)


def _parse(version: str) -> microversion.Microversion:
    try:
        return microversion.Microversion.parse(version)
    except ValueError as error:
        raise ValueError(f"invalid version number {version}") from error


def _predicate(
    holds: Callable[[microversion.Microversion, microversion.Microversion], bool],
    text: str,
    limit: str,
) -> Predicate:
    return lambda version: holds(_parse(version), _parse(limit)) or f"{text} {limit}"


lt = functools.partial(_predicate, operator.lt, "requires version less than")
le = functools.partial(_predicate, operator.le, "requires at most version")
eq = functools.partial(_predicate, operator.eq, "requires version")
ne = functools.partial(_predicate, operator.ne, "can not use version")
ge = functools.partial(_predicate, operator.ge, "requires at least version")
gt = functools.partial(_predicate, operator.gt, "requires version greater than")


def compare(
    ver: str,
    *predicates: Predicate,
    exc: bool = True,
    op: Callable[[Iterable[bool]], bool] = all,
) -> bool:
    """Whether all predicates (``op=any``: one of them) hold for the version.

    Raises ValueError if not, unless ``exc`` is false; always for an invalid version.
    """
    answers = [predicate(ver) for predicate in predicates]
    if op(answer is True for answer in answers):
        return True
    if not exc:
        return False
    reasons = [str(answer) for answer in answers if answer is not True]
    raise ValueError(
        f"Operation or argument is not supported with version {ver}; "
        + (", or " if op is any else ", and ").join(reasons)
    )


def get_version(obj: Any) -> str:
    """The version of a command's client; 1.0 before the command has a session, as in its help."""
    manager: Any = getattr(getattr(obj, "app", None), "client_manager", None)
    if getattr(manager, "session", None) is None:
        return str(microversion.MINIMUM)
    version: str = manager.osc_placement.api_version
    return version


def check(
    *predicates: Predicate, exc: bool = True, op: Callable[[Iterable[bool]], bool] = all
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Decorate a method of a command with ``compare`` of the command's version."""

    def decorate(method: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(method)
        def checked(self: Any, *arguments: Any, **options: Any) -> R:
            compare(get_version(self), *predicates, exc=exc, op=op)
            return method(self, *arguments, **options)

        return checked

    return decorate


class CheckerMixin:
    """``compare`` with the version of a command."""

    def check_version(
        self,
        *predicates: Predicate,
        exc: bool = True,
        op: Callable[[Iterable[bool]], bool] = all,
    ) -> bool:
        """Whether the predicates hold. Raises ValueError if not, unless ``exc`` is false."""
        return compare(get_version(self), *predicates, exc=exc, op=op)

    def compare_version(
        self, *predicates: Predicate, op: Callable[[Iterable[bool]], bool] = all
    ) -> bool:
        """Whether the predicates hold."""
        return compare(get_version(self), *predicates, exc=False, op=op)
