"""Messages for missing permissions: they name the service and the policy rule."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from osc_placement import errors
from osc_placement.client import api_errors
from osc_placement.nova import api

_RULE = re.compile(r"placement:[\w:]+")


@contextlib.contextmanager
def collected(input_errors: errors.InputErrors) -> Iterator[None]:
    """Collect a refused request of the block, so that all missing permissions are reported."""
    try:
        yield
    except api_errors.ApiError as error:
        if error.status != 403:
            raise
        input_errors.add(missing(error))


def missing(error: api_errors.ApiError) -> str:
    """The message for a request that a policy refused."""
    if isinstance(error, api.NovaRefused):
        service, rule = "nova", error.rule
    else:
        found = _RULE.search(error.detail)
        service, rule = "placement", found[0] if found else None
    named = f", {rule}" if rule else ""
    return f"missing permission in {service}{named}; nothing was changed: {error}"
