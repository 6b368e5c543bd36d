# SPDX-License-Identifier: Apache-2.0
"""HTTP errors, and the table that maps engine errors to them.

Handlers raise engine errors, or the errors below. Only this module builds error responses:
``{"errors": [{status, title, detail, request_id, code}]}``
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import webob
from webob import exc

from osc_placement import microversion
from osc_placement.engine import errors
from osc_placement.engine.candidates.budget import SearchTooLong, TooManyCandidates

UNDEFINED = "placement.undefined_code"
CONCURRENT_UPDATE = "placement.concurrent_update"
INVENTORY_INUSE = "placement.inventory.inuse"
DUPLICATE_NAME = "placement.duplicate_name"
PROVIDER_INUSE = "placement.resource_provider.inuse"
PROVIDER_NOT_FOUND = "placement.resource_provider.not_found"
CANNOT_DELETE_PARENT = "placement.resource_provider.cannot_delete_parent"
QUERY_BAD_VALUE = "placement.query.bad_value"
QUERY_DUPLICATE_KEY = "placement.query.duplicate_key"
QUERY_MISSING_VALUE = "placement.query.missing_value"

#: How the text of an error about a query string begins.
INVALID_QUERY = "Invalid query string parameters: "

#: Accept headers that allow every media type; errors are then JSON.
ANY_MEDIA_TYPE = (None, "", "*/*")


def clip(text: str, length: int) -> str:
    """The text, cut off after ``length`` characters."""
    return text if len(text) <= length else f"{text[:length]}… ({len(text)} characters)"


class HttpError(Exception):
    """An error of a request, with the status of its response.

    ``headers`` are those of the response, ``more`` further keys of the error in its body.
    ``varies``: whether it has a vary header. In Placement only errors of a handler have one.
    """

    #: Characters of the text; a longer one, which quotes the request, is cut off.
    max_detail = 2048

    def __init__(
        self,
        status: int,
        detail: str = "",
        code: str = UNDEFINED,
        *,
        varies: bool = True,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = clip(detail, self.max_detail)
        self.code = code
        self.varies = varies
        self.headers = headers or {}
        self.more = more or {}


class HttpBadRequest(HttpError):
    """The request is malformed."""

    def __init__(self, detail: str, code: str = UNDEFINED) -> None:
        super().__init__(400, detail, code)


class InvalidDocument(HttpBadRequest):
    """A document that its schema, which the text contains, does not allow."""

    max_detail = 16 * 1024


class ErrorResponse(NamedTuple):
    """The response to an engine error.

    ``detail`` is a format string over the error's fields, the parts of the path, and ``error``, the
    error's text.
    """

    status: int
    code: str = UNDEFINED
    detail: str = "{error}"
    varies: bool = True


_NARROW = (
    "Narrow the query: set a limit, request fewer groups, or name a tree with in_tree,"
    " required traits or aggregates."
)

_GENERATION_CHANGED = ErrorResponse(
    409,
    CONCURRENT_UPDATE,
    "Resource provider's generation already changed. Please update the generation and try again.",
)

#: By error class, or by (operation of the route, error class).
RESPONSES: dict[type[Exception] | tuple[str, type[Exception]], ErrorResponse] = {
    errors.ProviderNotFound: ErrorResponse(404, varies=False),
    errors.DuplicateProvider: ErrorResponse(409, DUPLICATE_NAME),
    errors.ProviderNameTaken: ErrorResponse(409, DUPLICATE_NAME),
    errors.ProviderInUse: ErrorResponse(409, PROVIDER_INUSE),
    errors.ProviderIsParent: ErrorResponse(409, CANNOT_DELETE_PARENT),
    errors.StaleGeneration: ErrorResponse(409, CONCURRENT_UPDATE),
    errors.ReshapeGenerationConflict: ErrorResponse(409, CONCURRENT_UPDATE),
    errors.ConsumerGenerationConflict: ErrorResponse(409, CONCURRENT_UPDATE),
    errors.ResourceClassNotFound: ErrorResponse(404, varies=False),
    errors.ResourceClassExists: ErrorResponse(409),
    errors.ResourceClassStandard: ErrorResponse(400),
    errors.ResourceClassInUse: ErrorResponse(409, detail="Error in delete resource class: {error}"),
    errors.TraitNotFound: ErrorResponse(404),
    errors.ProviderTraitUnknown: ErrorResponse(400),
    errors.TraitInvalid: ErrorResponse(400),
    errors.TraitStandard: ErrorResponse(400),
    errors.TraitInUse: ErrorResponse(409),
    errors.UsedInventory: ErrorResponse(409, INVENTORY_INUSE),
    errors.AllocationRefused: ErrorResponse(409, detail="Unable to allocate inventory: {error}"),
    errors.AllocationProviderNotFound: ErrorResponse(400),
    errors.AllocationsNotFound: ErrorResponse(404),
    TooManyCandidates: ErrorResponse(400, detail="{error} Set a limit."),
    SearchTooLong: ErrorResponse(400, detail="{error} " + _NARROW),
    ("resource_providers:create", errors.ProviderInvalid): ErrorResponse(
        400, detail='Unable to create resource provider "{name}", {uuid}: {error}'
    ),
    ("resource_providers:update", errors.ProviderInvalid): ErrorResponse(
        400, detail="Unable to save resource provider {uuid}: {error}"
    ),
    ("resource_providers:delete", errors.ProviderNotFound): ErrorResponse(
        404, detail="{error} for delete"
    ),
    ("resource_providers:inventories:list", errors.ProviderNotFound): ErrorResponse(
        404, detail="{error} : {error}"
    ),
    ("resource_providers:inventories:show", errors.ProviderNotFound): ErrorResponse(
        404, detail="{error} : {error}"
    ),
    ("resource_providers:inventories:show", errors.InventoryNotFound): ErrorResponse(
        404, detail="No inventory of class {name} for {uuid}"
    ),
    ("resource_providers:inventories:create", errors.ResourceClassNotFound): ErrorResponse(
        400, detail="Unable to create inventory for resource provider {uuid}: {error}"
    ),
    ("resource_providers:inventories:create", errors.InventoryInvalid): ErrorResponse(
        400, detail="Unable to create inventory for resource provider {uuid}: {error}"
    ),
    ("resource_providers:inventories:create", errors.InventoryExists): ErrorResponse(
        409, CONCURRENT_UPDATE, "Update conflict: {error}"
    ),
    ("resource_providers:inventories:update", errors.InventoryInvalid): ErrorResponse(
        400, detail="Unable to update inventory for resource provider {uuid}: {error}"
    ),
    ("resource_providers:inventories:update", errors.InventoryNotFound): ErrorResponse(
        400,
        detail="No inventory record with resource class for resource provider {uuid}: {error}",
    ),
    ("resource_providers:inventories:replace", errors.InventoryInvalid): ErrorResponse(
        400, detail="Unable to update inventory for resource provider {uuid}: {error}"
    ),
    ("resource_providers:inventories:replace", errors.ResourceClassNotFound): ErrorResponse(
        400, detail="Unknown resource class in inventory for resource provider {uuid}: {error}"
    ),
    ("resource_providers:inventories:replace", errors.UsedInventory): ErrorResponse(
        409, INVENTORY_INUSE, "update conflict: {error}"
    ),
    ("resource_providers:inventories:delete", errors.InventoryNotFound): ErrorResponse(
        404, detail="{error}: {error}"
    ),
    ("resource_providers:inventories:delete", errors.ResourceClassNotFound): ErrorResponse(
        404, detail="No inventory of class {name} found for delete: {error}"
    ),
    ("resource_providers:inventories:delete", errors.UsedInventory): ErrorResponse(
        409, CONCURRENT_UPDATE, "Unable to delete inventory of class {resource_class}: {error}"
    ),
    ("resource_providers:aggregates:update", errors.StaleGeneration): _GENERATION_CHANGED,
    ("resource_providers:traits:update", errors.StaleGeneration): _GENERATION_CHANGED,
    ("resource_providers:traits:list", errors.ProviderNotFound): ErrorResponse(
        404, detail="{error}: {error}"
    ),
    ("resource_providers:usages", errors.ProviderNotFound): ErrorResponse(
        404, detail="{error}: {error}"
    ),
    ("resource_providers:allocations:list", errors.ProviderNotFound): ErrorResponse(
        404, detail="Resource provider '{uuid}' not found: {error}"
    ),
    ("resource_classes:create", errors.ResourceClassExists): ErrorResponse(
        409, detail="Conflicting resource class already exists: {name}"
    ),
    ("resource_classes:delete", errors.ResourceClassStandard): ErrorResponse(
        400, detail="Error in delete resource class: {error}."
    ),
    ("allocations:update", errors.ResourceClassNotFound): ErrorResponse(
        400, detail="Unable to allocate inventory for consumer {consumer_uuid}: {error}"
    ),
    ("allocations:manage", errors.ResourceClassNotFound): ErrorResponse(
        400, detail="Unable to allocate inventory {error}"
    ),
    ("reshaper:reshape", errors.ProviderNotFound): ErrorResponse(
        400, PROVIDER_NOT_FOUND, "Resource provider {uuid} in inventories not found: {error}"
    ),
    ("reshaper:reshape", errors.ResourceClassNotFound): ErrorResponse(
        400, detail="malformed reshaper data: {error}"
    ),
    ("reshaper:reshape", errors.UsedInventory): ErrorResponse(
        409, INVENTORY_INUSE, "update conflict: {error}"
    ),
    ("reshaper:reshape", errors.InventoryInvalid): ErrorResponse(
        400, detail="malformed reshaper data: {error}"
    ),
    ("resource_providers:list", errors.ResourceClassNotFound): ErrorResponse(
        400, detail="Invalid resource class in resources parameter: {error}"
    ),
    ("resource_providers:list", errors.TraitNotFound): ErrorResponse(
        400, detail='Invalid trait(s) in "required" parameter: {error}'
    ),
    ("allocation_candidates:list", errors.ResourceClassNotFound): ErrorResponse(
        400, detail="Invalid resource class in resources parameter: {error}"
    ),
    ("allocation_candidates:list", errors.TraitNotFound): ErrorResponse(400),
}


def from_engine(error: Exception, operation: str, params: Mapping[str, str]) -> HttpError:
    """The HTTP error for an engine error of this operation."""
    matched = _look_up(type(error), operation)
    fields = {**params, **getattr(error, "fields", {})}
    detail = matched.detail.format(error=error, **fields)
    return HttpError(matched.status, detail, matched.code, varies=matched.varies)


def _look_up(error_class: type[Exception], operation: str) -> ErrorResponse:
    for base in error_class.__mro__:
        if (operation, base) in RESPONSES:
            return RESPONSES[operation, base]
        if base in RESPONSES:
            return RESPONSES[base]
    raise LookupError(f"no answer for {error_class.__name__}")


def response(
    http_error: HttpError,
    environ: dict[str, Any],
    request_id: str,
    version: microversion.Microversion | None,
) -> webob.Response:
    """The response for an error, in a format that the accept header allows.

    It contains the error code since 1.23.
    """

    def as_json(body: str, status: str, title: str, **_: Any) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "status": int(status.split()[0]),
            "title": title,
            "detail": exc.strip_tags(body),
        }
        if version is not None and version.minor >= 23:
            entry["code"] = http_error.code
        entry["request_id"] = request_id
        return {"errors": [{**entry, **http_error.more}]}

    error = exc.status_map[http_error.status](http_error.detail, json_formatter=as_json)
    # A plain text error names the media type, even without one.
    environ = {"CONTENT_TYPE": "None", **environ}
    if environ.get("HTTP_ACCEPT") in ANY_MEDIA_TYPE:
        environ["HTTP_ACCEPT"] = "application/json"
    error_response = webob.Request(environ).get_response(error)
    error_response.headers.update(http_error.headers)
    return error_response
