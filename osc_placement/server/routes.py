# SPDX-License-Identifier: Apache-2.0
"""The route table: every path, its methods, and their requirements.

The ``allow`` header of a 405 lists the methods in the order of this table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import webob

from osc_placement.server import policy
from osc_placement.server.context import RequestContext
from osc_placement.server.handlers import (
    aggregate,
    allocation,
    candidate,
    inventory,
    provider,
    resource_class,
    root,
    trait,
    usage,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """One method of one path.

    ``operation`` is its name in the error table and, unless ``rule_name`` is set, in the policy.
    ``since`` is the first microversion 1.x with the route. POST and PUT require a JSON body; with
    ``body_below`` only below microversion 1.``body_below``.
    """

    operation: str
    handler: Callable[[RequestContext], webob.Response]
    since: int = 0
    body_below: int | None = None
    rule_name: str = ""
    #: The response is 405 instead of 404 at a microversion without the route.
    hidden_as_method: bool = False
    #: The handler authorizes the request, because it knows the target.
    authorizes_itself: bool = False
    #: Media types are checked before the microversion.
    media_types_first: bool = False
    #: A GET that ignores the accept header.
    any_accept: bool = False

    @property
    def rule(self) -> str:
        """The policy rule; empty if the route needs none."""
        name = self.rule_name or self.operation
        return policy.PREFIX + name if name else ""


_PROVIDER = "/resource_providers/{uuid}"

ROUTES: dict[str, dict[str, Route]] = {
    "/": {"GET": Route("", root.show, any_accept=True)},
    "/resource_providers": {
        "GET": Route("resource_providers:list", provider.list_all),
        "POST": Route("resource_providers:create", provider.create),
    },
    _PROVIDER: {
        "GET": Route("resource_providers:show", provider.show),
        "DELETE": Route("resource_providers:delete", provider.delete),
        "PUT": Route("resource_providers:update", provider.update),
    },
    f"{_PROVIDER}/inventories": {
        "GET": Route("resource_providers:inventories:list", inventory.list_all),
        "POST": Route("resource_providers:inventories:create", inventory.create),
        "PUT": Route(
            "resource_providers:inventories:replace",
            inventory.replace_all,
            rule_name="resource_providers:inventories:update",
        ),
        "DELETE": Route(
            "resource_providers:inventories:delete_all",
            inventory.delete_all,
            since=5,
            rule_name="resource_providers:inventories:delete",
            hidden_as_method=True,
        ),
    },
    f"{_PROVIDER}/inventories/{{resource_class}}": {
        "GET": Route("resource_providers:inventories:show", inventory.show),
        "PUT": Route("resource_providers:inventories:update", inventory.replace_one),
        "DELETE": Route("resource_providers:inventories:delete", inventory.delete_one),
    },
    f"{_PROVIDER}/usages": {"GET": Route("resource_providers:usages", usage.of_provider)},
    f"{_PROVIDER}/aggregates": {
        "GET": Route(
            "resource_providers:aggregates:list",
            aggregate.list_all,
            since=1,
            media_types_first=True,
        ),
        "PUT": Route(
            "resource_providers:aggregates:update",
            aggregate.replace_all,
            since=1,
            media_types_first=True,
        ),
    },
    f"{_PROVIDER}/traits": {
        "GET": Route("resource_providers:traits:list", trait.list_of_provider, since=6),
        "PUT": Route("resource_providers:traits:update", trait.replace_of_provider, since=6),
        "DELETE": Route("resource_providers:traits:delete", trait.clear_of_provider, since=6),
    },
    f"{_PROVIDER}/allocations": {
        "GET": Route("resource_providers:allocations:list", allocation.of_provider)
    },
    "/traits": {"GET": Route("traits:list", trait.list_all, since=6)},
    "/traits/{name}": {
        "GET": Route("traits:show", trait.show, since=6, any_accept=True),
        "PUT": Route("traits:update", trait.put, since=6, body_below=0),
        "DELETE": Route("traits:delete", trait.delete, since=6),
    },
    "/resource_classes": {
        "GET": Route("resource_classes:list", resource_class.list_all, since=2),
        "POST": Route("resource_classes:create", resource_class.create, since=2),
    },
    "/resource_classes/{name}": {
        "GET": Route("resource_classes:show", resource_class.show, since=2),
        "PUT": Route("resource_classes:update", resource_class.put, since=2, body_below=7),
        "DELETE": Route("resource_classes:delete", resource_class.delete, since=2),
    },
    "/usages": {"GET": Route("usages", usage.of_project, since=9, authorizes_itself=True)},
    "/allocations": {"POST": Route("allocations:manage", allocation.write_many, since=13)},
    "/allocations/{consumer_uuid}": {
        "GET": Route("allocations:list", allocation.show),
        "PUT": Route("allocations:update", allocation.write_one),
        "DELETE": Route("allocations:delete", allocation.delete),
    },
    "/reshaper": {"POST": Route("reshaper:reshape", allocation.reshape_all, since=30)},
    "/allocation_candidates": {
        "GET": Route("allocation_candidates:list", candidate.list_all, since=10)
    },
}

#: The names of all policy rules.
RULES = sorted({route.rule for methods in ROUTES.values() for route in methods.values()} - {""})

_BY_LENGTH: dict[int, list[tuple[tuple[str, ...], dict[str, Route]]]] = {}
for _path, _methods in ROUTES.items():
    _segments = tuple(_path[1:].split("/"))
    _BY_LENGTH.setdefault(len(_segments), []).append((_segments, _methods))


def match(path: str) -> tuple[dict[str, Route], Mapping[str, str]] | None:
    """The methods and the variable parts of a path; None for an unknown path."""
    if path and not path.startswith("/"):
        return None
    requested = tuple(path[1:].split("/"))
    for segments, methods in _BY_LENGTH.get(len(requested), ()):
        params = {}
        for expected, segment in zip(segments, requested, strict=True):
            if expected.startswith("{"):
                if not segment:
                    break
                params[expected[1:-1]] = segment
            elif expected != segment:
                break
        else:
            return methods, params
    return None
