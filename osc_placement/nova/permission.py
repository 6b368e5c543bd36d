"""What a user may not do, told so that somebody can give the right: whose it is, and its rule."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from osc_placement import errors
from osc_placement.client import api_errors
from osc_placement.nova import api

_RULE = re.compile(r"placement:[\w:]+")


@contextlib.contextmanager
def collected(faults: errors.InputErrors) -> Iterator[None]:
    """Keep a refusal for want of rights among the faults, so that all are told at once."""
    try:
        yield
    except api_errors.ApiError as error:
        if error.status != 403:
            raise
        faults.add(missing(error))


def missing(error: api_errors.ApiError) -> str:
    """Which right a refused request would have needed, and whose it is to give."""
    if isinstance(error, api.NovaRefused):
        service, rule = "nova (by default, admins of a project have it)", error.rule
    else:
        found = _RULE.search(error.detail)
        service, rule = "placement", found[0] if found else None
    named = f", {rule}" if rule else ""
    return f"a right is missing in {service}{named}; nothing was changed: {error}"
