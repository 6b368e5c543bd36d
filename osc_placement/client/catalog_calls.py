"""Requests for traits and resource classes."""

from __future__ import annotations

from osc_placement.client import api_errors, caller


class CatalogCalls(caller.Caller):
    """Every method sends one request."""

    def list_traits(self, name: str | None = None, associated: bool | None = None) -> list[str]:
        """GET /traits (1.6). ``name`` has the API's form: ``in:A,B`` or ``startswith:CUSTOM_``."""
        self.require_feature("traits", "GET /traits")
        pairs = [] if name is None else [("name", name)]
        if associated is not None:
            pairs.append(("associated", str(associated).lower()))
        return caller.parse(self._get("traits", pairs=pairs), lambda body: list(body["traits"]))

    def show_trait(self, name: str) -> str | None:
        """GET /traits/{name} (1.6): the last-modified header (1.15). Errors: NotFound."""
        self.require_feature("traits", "GET /traits")
        return self._get("traits", name).headers.get("last-modified")

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
        return caller.parse(
            self._get("resource_classes"),
            lambda body: [item["name"] for item in body["resource_classes"]],
        )

    def show_resource_class(self, name: str) -> str:
        """GET /resource_classes/{name} (1.2). Errors: NotFound."""
        self.require_feature("resource classes", "GET /resource_classes")
        return caller.parse(self._get("resource_classes", name), lambda body: str(body["name"]))

    def resource_class_updated(self, name: str) -> str | None:
        """GET /resource_classes/{name} (1.2): the last-modified header (1.15)."""
        self.require_feature("resource classes", "GET /resource_classes")
        return self._get("resource_classes", name).headers.get("last-modified")

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
