"""Requests for resource providers: inventories, aggregates, traits, usages, allocations."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from osc_placement.client import caller, query, wire

if TYPE_CHECKING:
    from osc_placement.client import responses
    from osc_placement.model import inventory, provider

_ROOT = "resource_providers"


class Unchanged(enum.Enum):
    """The default of an argument for which None has a meaning: the field is not sent."""

    UNCHANGED = enum.auto()


UNCHANGED = Unchanged.UNCHANGED


class ProviderCalls(caller.Caller):
    """Every method sends one request; ``create_provider`` sends two below 1.20."""

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
        return caller.parse(self._get(_ROOT, pairs=pairs), wire.read_providers)

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
        reply = self._get(_ROOT, uuid)
        updated = reply.headers.get("last-modified")
        return caller.parse(reply, lambda body: wire.read_provider(body, updated))

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
            return caller.parse(reply, wire.read_provider)
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
        return caller.parse(self._send("PUT", _ROOT, uuid, body=body), wire.read_provider)

    def delete_provider(self, uuid: str) -> None:
        """DELETE /resource_providers/{uuid}. Errors: Conflict while it has children or usage."""
        self._send("DELETE", _ROOT, uuid)

    def list_inventories(self, uuid: str) -> responses.ProviderInventories:
        """GET /resource_providers/{uuid}/inventories; ``updated`` is set from 1.15."""
        reply = self._get(_ROOT, uuid, "inventories")
        updated = reply.headers.get("last-modified")
        return caller.parse(reply, wire.read_inventories)._replace(updated=updated)

    def replace_inventories(
        self, uuid: str, generation: int, inventories: inventory.Inventories
    ) -> responses.ProviderInventories:
        """PUT /resource_providers/{uuid}/inventories: replace all, with a generation."""
        body = wire.inventories_body(generation, inventories)
        reply = self._send("PUT", _ROOT, uuid, "inventories", body=body)
        return caller.parse(reply, wire.read_inventories)

    def delete_inventories(self, uuid: str) -> None:
        """DELETE /resource_providers/{uuid}/inventories: all, without a generation (1.5)."""
        self.require_feature("inventories delete", "DELETE inventories")
        self._send("DELETE", _ROOT, uuid, "inventories")

    def show_inventory(self, uuid: str, resource_class: str) -> inventory.Inventory:
        """GET /resource_providers/{uuid}/inventories/{class}."""
        reply = self._get(_ROOT, uuid, "inventories", resource_class)
        return caller.parse(reply, wire.read_inventory)

    def update_inventory(
        self, uuid: str, resource_class: str, generation: int, item: inventory.Inventory
    ) -> inventory.Inventory:
        """PUT /resource_providers/{uuid}/inventories/{class} of an existing inventory."""
        body = wire.inventory_body(generation, item)
        reply = self._send("PUT", _ROOT, uuid, "inventories", resource_class, body=body)
        return caller.parse(reply, wire.read_inventory)

    def delete_inventory(self, uuid: str, resource_class: str) -> None:
        """DELETE /resource_providers/{uuid}/inventories/{class}. Errors: InventoryInUse."""
        self._send("DELETE", _ROOT, uuid, "inventories", resource_class)

    def list_aggregates(self, uuid: str) -> responses.ProviderAggregates:
        """GET /resource_providers/{uuid}/aggregates (1.1)."""
        self.require_feature("provider aggregates", "aggregates")
        return caller.parse(self._get(_ROOT, uuid, "aggregates"), wire.read_aggregates)

    def replace_aggregates(
        self, uuid: str, generation: int | None, aggregates: Iterable[str]
    ) -> responses.ProviderAggregates:
        """PUT /resource_providers/{uuid}/aggregates: replace all; with a generation from 1.19."""
        self.require_feature("provider aggregates", "aggregates")
        body = wire.aggregates_body(generation, aggregates, self.microversion)
        reply = self._send("PUT", _ROOT, uuid, "aggregates", body=body)
        return caller.parse(reply, wire.read_aggregates)

    def list_provider_traits(self, uuid: str) -> responses.ProviderTraits:
        """GET /resource_providers/{uuid}/traits (1.6)."""
        self.require_feature("traits", "traits")
        return caller.parse(self._get(_ROOT, uuid, "traits"), wire.read_traits)

    def replace_provider_traits(
        self, uuid: str, generation: int, traits: Iterable[str]
    ) -> responses.ProviderTraits:
        """PUT /resource_providers/{uuid}/traits: replace all, with a generation (1.6)."""
        self.require_feature("traits", "traits")
        body = wire.traits_body(generation, traits)
        return caller.parse(self._send("PUT", _ROOT, uuid, "traits", body=body), wire.read_traits)

    def delete_provider_traits(self, uuid: str) -> None:
        """DELETE /resource_providers/{uuid}/traits: all, without a generation (1.6)."""
        self.require_feature("traits", "traits")
        self._send("DELETE", _ROOT, uuid, "traits")

    def list_usages(self, uuid: str) -> dict[str, int]:
        """GET /resource_providers/{uuid}/usages: ``{resource class: used}``."""
        reply = self._get(_ROOT, uuid, "usages")
        return caller.parse(reply, lambda body: dict(body["usages"]))

    def list_provider_allocations(self, uuid: str) -> responses.ProviderAllocations:
        """GET /resource_providers/{uuid}/allocations; without project, user and type."""
        reply = self._get(_ROOT, uuid, "allocations")
        return caller.parse(reply, wire.read_provider_allocations)
