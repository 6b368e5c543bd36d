# SPDX-License-Identifier: Apache-2.0
"""The client: one method per request of the Placement API."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from osc_placement import errors, microversion
from osc_placement.client import api_errors, local, query, responses, retry, transport, wire
from osc_placement.microversion import FEATURES, Microversion, negotiate
from osc_placement.model import allocation

if TYPE_CHECKING:
    from osc_placement.model import candidate, inventory, provider


T = TypeVar("T")

_ROOT = "resource_providers"


class Unchanged(enum.Enum):
    """The default of an argument for which None has a meaning: the field is not sent."""

    UNCHANGED = enum.auto()


UNCHANGED = Unchanged.UNCHANGED


class Client:
    """The Placement HTTP API; one request per method. Only a read is sent again, by ``retry.read``.

    ``requested`` is the microversion of the requests; None: negotiate at the first use. ``latest``:
    use the highest version that client and server share, and treat it as pinned.

    A method that needs a later microversion than the one in use raises UnsupportedVersion
    before any request. Other errors: ApiError, ConnectionFailed and, for writes,
    OutcomeUnknown. ``create_provider`` sends two requests below 1.20.
    """

    def __init__(
        self,
        transport: transport.Transport,
        requested: Microversion | None = None,
        *,
        latest: bool = False,
    ) -> None:
        self.transport = transport
        self._requested = requested
        self._latest = latest

    @property
    def pinned(self) -> bool:
        """Whether the operator chose the version; otherwise it is negotiated."""
        return self._latest or self._requested is not None

    @property
    def microversion(self) -> Microversion:
        """The version in use. Requests: one GET, the first time, if it is negotiated."""
        if self._requested is not None:
            return self._requested
        return self.negotiated

    @property
    def negotiated(self) -> Microversion:
        """The highest version that client and server share, also when a version is pinned."""
        try:
            return negotiate(*self.transport.versions())
        except ValueError as error:
            raise errors.PlacementError(f"{self.target}: {error}") from error

    @property
    def target(self) -> transport.Target:
        """The endpoint with the names of cloud and region, or the database file."""
        return self.transport.target

    @property
    def _local(self) -> local.LocalPlacement | None:
        """A Placement in this process. Errors: ConnectionFailed if it cannot be opened."""
        try:
            return self.transport.local()
        except Exception as error:  # The errors of an application that cannot open its file.
            raise api_errors.ConnectionFailed(str(error)) from error

    @property
    def _saved_cloud(self) -> local.SavedCloud | None:
        """The snapshot of the target."""
        placement = self._local
        return placement.saved_cloud if placement else None

    @property
    def tables(self) -> local.StateTables | None:
        """Placement's own tables; None for a service and for a file."""
        placement = self._local
        return placement.tables if placement else None

    @property
    def origin(self) -> str:
        """The cloud of which the target is a snapshot; empty for a service and for other files."""
        saved = self._saved_cloud
        return saved.origin if saved else ""

    def require_owners(self) -> None:
        """Refuse a snapshot that was saved without owners. Errors: PlacementError."""
        saved = self._saved_cloud
        if saved and not saved.has_owners:
            raise errors.PlacementError(
                f"{self.target} is a snapshot without the owners of consumers, which this command"
                " compares: save it again without --without-owners"
            )

    @property
    def has_recording(self) -> bool:
        """Whether ``recording`` has responses."""
        saved = self._saved_cloud
        return saved is not None and saved.has_recording

    def recording(self) -> Mapping[str, Any]:
        """The responses of nova and neutron in a snapshot, ``{"GET /path": body}``; or empty."""
        saved = self._saved_cloud
        return saved.recording() if saved else {}

    def at(self, version: Microversion) -> Self:
        """A client of the same transport with another version."""
        return type(self)(self.transport, version)

    def require_feature(self, feature: str, what: str = "") -> None:
        """Raise UnsupportedVersion when the version in use lacks ``feature``."""
        needs, has = FEATURES[feature], self.microversion
        if has < needs:
            raise api_errors.UnsupportedVersion(feature, needs, has, what)

    def close(self) -> None:
        """Close connections and files; the next request reopens them."""
        self.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def api_version(self) -> str:
        """The version in use, for plugins that use upstream's client; unpinned at most 1.29."""
        if self.pinned:
            return str(self.microversion)
        return str(min(self.microversion, microversion.UNPINNED))

    def request(
        self, method: str, url: str, version: str | None = None, **options: Any
    ) -> transport.Response:
        """Send any request, for plugins that use upstream's client.

        ``version`` overrides ``api_version``; ``options`` are passed to keystoneauth's session.
        Errors: as for all methods.
        """
        body = options.pop("json", None)
        response = self.transport.request(
            method, url, version=version or self.api_version, body=body, **options
        )
        transport.check(response, method, url)
        return response

    def _send(
        self,
        method: str,
        *segments: str,
        pairs: Iterable[tuple[str, str]] = (),
        body: Any = None,
    ) -> transport.ParsedResponse:
        url = "/" + "/".join(query.quote(segment) for segment in segments) + query.encode(pairs)
        return self.transport.send(method, url, version=self.microversion, body=body)

    def _read(
        self, read: Callable[[Any], T], *segments: str, pairs: Sequence[tuple[str, str]] = ()
    ) -> T:
        """``read(body)`` of a GET, which is sent again while the service fails."""
        return retry.read(lambda: parse(self._send("GET", *segments, pairs=pairs), read))

    def _read_dated(self, read: Callable[[Any, str | None], T], *segments: str) -> T:
        """As ``_read``, of the body and of the date of its last change."""

        def attempt() -> T:
            reply = self._send("GET", *segments)
            updated = reply.headers.get("last-modified")
            return parse(reply, lambda body: read(body, updated))

        return retry.read(attempt)

    def list_providers(
        self,
        *,
        name: str | None = None,
        uuid: str | None = None,
        in_tree: str | None = None,
        resources: Mapping[str, int] | None = None,
        required: Sequence[str] = (),
        member_of: Sequence[str] = (),
    ) -> list[provider.Provider]:
        """GET /resource_providers: the providers that match every filter, in the server's order.

        An item of ``required`` is a trait (1.18), ``!TRAIT`` (1.22) or ``in:A,B`` (1.39). An
        item of ``member_of`` is an aggregate or ``in:A,B`` (1.3), also after ``!`` (1.32);
        several items need 1.24.
        """
        pairs = [
            (key, value)
            for key, value in (("name", name), ("uuid", uuid), ("in_tree", in_tree))
            if value is not None
        ]
        if in_tree is not None:
            self.require_feature("nested providers", "in_tree")
        if resources:
            self.require_feature("provider resources", "resources")
            pairs.append(("resources", query.resources_value(resources)))
        pairs += self._trait_pairs(required) + self._aggregate_pairs(member_of)
        read = wire.read_providers if pairs else wire.read_all_providers
        return self._read(read, _ROOT, pairs=pairs)

    def _trait_pairs(self, required: Sequence[str]) -> list[tuple[str, str]]:
        if required:
            self.require_feature("provider required traits", "required")
        for feature in query.required_features(required):
            self.require_feature(feature, "required")
        return [("required", value) for value in query.required_values(required)]

    def _aggregate_pairs(self, member_of: Sequence[str]) -> list[tuple[str, str]]:
        if member_of:
            self.require_feature("provider member_of", "member_of")
        for feature in query.member_of_features(member_of):
            self.require_feature(feature, "member_of")
        return [("member_of", value) for value in member_of]

    def show_provider(self, uuid: str) -> provider.Provider:
        """GET /resource_providers/{uuid}; ``updated`` is set from 1.15."""
        return self._read_dated(wire.read_provider, _ROOT, uuid)

    def create_provider(
        self, name: str, uuid: str | None = None, parent_uuid: str | None = None
    ) -> provider.Provider:
        """POST /resource_providers; ``parent_uuid`` needs 1.14.

        Below 1.20 the response is empty and a second request reads the provider.
        """
        fields = {"uuid": uuid, "parent_provider_uuid": parent_uuid}
        if parent_uuid is not None:
            self.require_feature("nested providers", "parent_provider_uuid")
        body = wire.provider_body(name, **{k: v for k, v in fields.items() if v is not None})
        reply = self._send("POST", _ROOT, body=body)
        if reply.body is not None:
            return parse(reply, wire.read_provider)
        return self.show_provider(reply.headers.get("location", "").rpartition("/")[2])

    def update_provider(
        self, uuid: str, name: str, parent_uuid: str | Unchanged | None = UNCHANGED
    ) -> provider.Provider:
        """PUT /resource_providers/{uuid}: rename or move; a parent of None makes it a root.

        A first parent needs 1.14, another one 1.37. The write has no generation.
        """
        fields: dict[str, str | None] = {}
        if not isinstance(parent_uuid, Unchanged):
            self.require_feature("nested providers", "parent_provider_uuid")
            fields["parent_provider_uuid"] = parent_uuid
        body = wire.provider_body(name, **fields)
        return parse(self._send("PUT", _ROOT, uuid, body=body), wire.read_provider)

    def delete_provider(self, uuid: str) -> None:
        """DELETE /resource_providers/{uuid}. Errors: Conflict while it has children or usage."""
        self._send("DELETE", _ROOT, uuid)

    def list_inventories(self, uuid: str) -> responses.ProviderInventories:
        """GET /resource_providers/{uuid}/inventories; ``updated`` is set from 1.15."""

        def read(body: Any, updated: str | None) -> responses.ProviderInventories:
            return wire.read_inventories(body)._replace(updated=updated)

        return self._read_dated(read, _ROOT, uuid, "inventories")

    def replace_inventories(
        self, uuid: str, generation: int, inventories: inventory.Inventories
    ) -> responses.ProviderInventories:
        """PUT /resource_providers/{uuid}/inventories: replace all, with a generation."""
        body = wire.inventories_body(generation, inventories)
        reply = self._send("PUT", _ROOT, uuid, "inventories", body=body)
        return parse(reply, wire.read_inventories)

    def delete_inventories(self, uuid: str) -> None:
        """DELETE /resource_providers/{uuid}/inventories: all, without a generation (1.5)."""
        self.require_feature("inventories delete", "DELETE inventories")
        self._send("DELETE", _ROOT, uuid, "inventories")

    def show_inventory(self, uuid: str, resource_class: str) -> inventory.Inventory:
        """GET /resource_providers/{uuid}/inventories/{class}."""
        return self._read(wire.read_inventory, _ROOT, uuid, "inventories", resource_class)

    def update_inventory(
        self, uuid: str, resource_class: str, generation: int, item: inventory.Inventory
    ) -> inventory.Inventory:
        """PUT /resource_providers/{uuid}/inventories/{class} of an existing inventory."""
        body = wire.inventory_body(generation, item)
        reply = self._send("PUT", _ROOT, uuid, "inventories", resource_class, body=body)
        return parse(reply, wire.read_inventory)

    def delete_inventory(self, uuid: str, resource_class: str) -> None:
        """DELETE /resource_providers/{uuid}/inventories/{class}. Errors: InventoryInUse."""
        self._send("DELETE", _ROOT, uuid, "inventories", resource_class)

    def list_aggregates(self, uuid: str) -> responses.ProviderAggregates:
        """GET /resource_providers/{uuid}/aggregates (1.1)."""
        self.require_feature("provider aggregates", "aggregates")
        return self._read(wire.read_aggregates, _ROOT, uuid, "aggregates")

    def replace_aggregates(
        self, uuid: str, generation: int | None, aggregates: Iterable[str]
    ) -> responses.ProviderAggregates:
        """PUT /resource_providers/{uuid}/aggregates: replace all; with a generation from 1.19."""
        self.require_feature("provider aggregates", "aggregates")
        body = wire.aggregates_body(generation, aggregates, self.microversion)
        reply = self._send("PUT", _ROOT, uuid, "aggregates", body=body)
        return parse(reply, wire.read_aggregates)

    def list_provider_traits(self, uuid: str) -> responses.ProviderTraits:
        """GET /resource_providers/{uuid}/traits (1.6)."""
        self.require_feature("traits", "traits")
        return self._read(wire.read_traits, _ROOT, uuid, "traits")

    def replace_provider_traits(
        self, uuid: str, generation: int, traits: Iterable[str]
    ) -> responses.ProviderTraits:
        """PUT /resource_providers/{uuid}/traits: replace all, with a generation (1.6)."""
        self.require_feature("traits", "traits")
        body = wire.traits_body(generation, traits)
        return parse(self._send("PUT", _ROOT, uuid, "traits", body=body), wire.read_traits)

    def delete_provider_traits(self, uuid: str) -> None:
        """DELETE /resource_providers/{uuid}/traits: all, without a generation (1.6)."""
        self.require_feature("traits", "traits")
        self._send("DELETE", _ROOT, uuid, "traits")

    def list_usages(self, uuid: str) -> dict[str, int]:
        """GET /resource_providers/{uuid}/usages: ``{resource class: used}``."""
        return self._read(lambda body: dict(body["usages"]), _ROOT, uuid, "usages")

    def list_provider_allocations(self, uuid: str) -> responses.ProviderAllocations:
        """GET /resource_providers/{uuid}/allocations; without project, user and type."""
        return self._read(wire.read_provider_allocations, _ROOT, uuid, "allocations")

    def show_allocations(self, consumer_uuid: str) -> allocation.Consumer:
        """GET /allocations/{uuid}; an unknown consumer has no allocations and no generation.

        The response has the owner from 1.12, the generation from 1.28, the type from 1.38.
        """
        read = functools.partial(wire.read_consumer, consumer_uuid)
        return self._read(read, "allocations", consumer_uuid)

    def show_consumer_allocations(self, consumer_uuid: str) -> responses.ConsumerAllocations:
        """GET /allocations/{uuid} with the generations of the providers."""
        read = functools.partial(wire.read_consumer_allocations, consumer_uuid)
        return self._read(read, "allocations", consumer_uuid)

    def replace_allocations(
        self,
        consumer: allocation.Consumer,
        mappings: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """PUT /allocations/{uuid}: replace all; without any the consumer is deleted (1.28)."""
        body = wire.consumer_body(consumer, self.microversion, mappings)
        self._send("PUT", "allocations", consumer.uuid, body=body)

    def write_allocations(self, consumers: Iterable[allocation.Consumer]) -> None:
        """POST /allocations: several consumers in one transaction (1.13)."""
        self.require_feature("allocations of many consumers", "POST /allocations")
        self._send("POST", "allocations", body=wire.consumers_body(consumers, self.microversion))

    def delete_allocations(self, consumer_uuid: str) -> None:
        """DELETE /allocations/{uuid}: all, without a generation."""
        self._send("DELETE", "allocations", consumer_uuid)

    def show_usages(
        self,
        project_id: str,
        user_id: str | None = None,
        consumer_type: str | None = None,
    ) -> list[responses.Usage]:
        """GET /usages of a project (1.9): one entry; from 1.38 one per consumer type.

        ``consumer_type`` (1.38) may also be ``all`` (one entry) or ``unknown``.
        """
        self.require_feature("usages by project", "GET /usages")
        fields = {"project_id": project_id, "user_id": user_id, "consumer_type": consumer_type}
        if consumer_type is not None:
            self.require_feature("consumer types", "consumer_type")
        pairs = [(name, value) for name, value in fields.items() if value is not None]
        version = self.microversion
        return self._read(lambda body: wire.read_usages(body, version), "usages", pairs=pairs)

    def show_total_usage(self, project_id: str, user_id: str | None = None) -> responses.Usage:
        """GET /usages of a project (1.9), and of one user of it, over all consumer types.

        ``consumer_count`` is None below 1.38. From 1.38 on the request asks for the type
        ``all``: openstack-placement on PostgreSQL answers 500 if it must group by type.
        """
        counted = microversion.supports(self.microversion, "consumer types")
        usages = self.show_usages(project_id, user_id, "all" if counted else None)
        return responses.Usage(
            allocation.add_resources(*(usage.resources for usage in usages)),
            consumer_count=sum(usage.consumer_count or 0 for usage in usages) if counted else None,
        )

    def list_allocation_candidates(
        self, request: candidate.CandidateQuery | query.Pairs | str
    ) -> responses.Candidates:
        """GET /allocation_candidates (1.10).

        ``request`` may also be a query string from a log, or a list of parameters.
        """
        pairs = candidate_pairs(request)
        for feature, parameter in query.candidate_features(pairs).items():
            self.require_feature(feature, parameter)
        return self._read(wire.read_candidates, "allocation_candidates", pairs=pairs)

    def reshape(
        self,
        inventories: Mapping[str, responses.ProviderInventories],
        consumers: Iterable[allocation.Consumer],
    ) -> None:
        """POST /reshaper: replace inventories and allocations in one transaction (1.30).

        ``inventories`` is ``{provider uuid: new inventories with the current generation}``;
        all allocations of each consumer are replaced.
        """
        self.require_feature("reshaper", "POST /reshaper")
        self._send(
            "POST", "reshaper", body=wire.reshape_body(inventories, consumers, self.microversion)
        )

    def check_reshape(self) -> None:
        """Raise Forbidden unless policy allows this user to reshape. Changes nothing.

        Requests: one POST /reshaper with an empty body; Placement checks policy before it
        reads the body, and refuses the body with 400.
        """
        self.require_feature("reshaper", "POST /reshaper")
        try:
            self._send("POST", "reshaper", body={})
        except api_errors.OutcomeUnknown as error:
            # An empty body changes nothing: the caller can safely retry.
            raise api_errors.ConnectionFailed(error.detail) from error
        except api_errors.ApiError as error:
            if error.status != 400:
                raise

    def list_traits(self, name: str | None = None, associated: bool | None = None) -> list[str]:
        """GET /traits (1.6). ``name`` has the API's form: ``in:A,B`` or ``startswith:CUSTOM_``."""
        self.require_feature("traits", "GET /traits")
        pairs = [] if name is None else [("name", name)]
        if associated is not None:
            pairs.append(("associated", str(associated).lower()))
        return self._read(lambda body: list(body["traits"]), "traits", pairs=pairs)

    def show_trait(self, name: str) -> str | None:
        """GET /traits/{name} (1.6): the last-modified header (1.15). Errors: NotFound."""
        self.require_feature("traits", "GET /traits")
        return self._read_dated(lambda _, updated: updated, "traits", name)

    def trait_exists(self, name: str) -> bool:
        """GET /traits/{name} (1.6)."""
        try:
            self.show_trait(name)
        except api_errors.NotFound:
            return False
        return True

    def create_trait(self, name: str) -> None:
        """PUT /traits/{name} (1.6); no effect on an existing trait."""
        self.require_feature("traits", "PUT /traits")
        self._send("PUT", "traits", name)

    def delete_trait(self, name: str) -> None:
        """DELETE /traits/{name} (1.6). Errors: Conflict while a provider has the trait."""
        self.require_feature("traits", "DELETE /traits")
        self._send("DELETE", "traits", name)

    def list_resource_classes(self) -> list[str]:
        """GET /resource_classes (1.2)."""
        self.require_feature("resource classes", "GET /resource_classes")
        return self._read(
            lambda body: [item["name"] for item in body["resource_classes"]], "resource_classes"
        )

    def show_resource_class(self, name: str) -> str:
        """GET /resource_classes/{name} (1.2). Errors: NotFound."""
        self.require_feature("resource classes", "GET /resource_classes")
        return self._read(lambda body: str(body["name"]), "resource_classes", name)

    def resource_class_updated(self, name: str) -> str | None:
        """GET /resource_classes/{name} (1.2): the last-modified header (1.15)."""
        self.require_feature("resource classes", "GET /resource_classes")
        return self._read_dated(lambda _, updated: updated, "resource_classes", name)

    def resource_class_exists(self, name: str) -> bool:
        """GET /resource_classes/{name} (1.2)."""
        try:
            self.show_resource_class(name)
        except api_errors.NotFound:
            return False
        return True

    def create_resource_class(self, name: str) -> None:
        """POST /resource_classes (1.2). Errors: Conflict when the class exists."""
        self.require_feature("resource classes", "POST /resource_classes")
        self._send("POST", "resource_classes", body={"name": name})

    def put_resource_class(self, name: str) -> None:
        """PUT /resource_classes/{name} (1.7); no effect on an existing class."""
        self.require_feature("resource class idempotent put", "PUT /resource_classes")
        self._send("PUT", "resource_classes", name)

    def delete_resource_class(self, name: str) -> None:
        """DELETE /resource_classes/{name} (1.2). Errors: Conflict while an inventory uses it."""
        self.require_feature("resource classes", "DELETE /resource_classes")
        self._send("DELETE", "resource_classes", name)


def candidate_pairs(
    request: candidate.CandidateQuery | query.Pairs | str,
) -> query.Pairs:
    """The query parameters of a candidates query in any of its forms."""
    if isinstance(request, str):
        return query.parse(request)
    return request if isinstance(request, list) else query.candidate_pairs(request)


def parse(response: transport.ParsedResponse, reader: Callable[[Any], T]) -> T:
    """``reader(body)``; UnexpectedResponse when the body has another shape."""
    try:
        return reader(response.body)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise api_errors.UnexpectedResponse(
            response.status,
            f"{response.method} {response.url}: the response is not a response of Placement",
            method=response.method,
            url=response.url,
        ) from error
