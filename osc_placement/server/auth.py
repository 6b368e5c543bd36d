"""The identity that sends a request."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

SYSTEM_SCOPE = "HTTP_OPENSTACK_SYSTEM_SCOPE"
DOMAIN = "HTTP_X_DOMAIN_ID"


@dataclasses.dataclass(frozen=True)
class Identity:
    """Credentials as policy rules use them; ``system_scope`` is ``all`` or None.

    A token is scoped to a project, a domain, the system, or nothing.
    """

    user_id: str | None
    project_id: str | None
    roles: tuple[str, ...] = ()
    system_scope: str | None = None
    domain_id: str | None = None

    @property
    def is_of_project(self) -> bool:
        """Whether the token has project scope, or none; Placement accepts no other scope."""
        return not self.system_scope and not self.domain_id

    def credentials(self) -> dict[str, Any]:
        """The credentials in the form of oslo.policy."""
        return {
            "user_id": self.user_id,
            "project_id": self.project_id,
            "roles": list(self.roles),
            "system_scope": self.system_scope,
            "domain_id": self.domain_id,
        }


def noauth2(environ: Mapping[str, Any]) -> Identity | None:
    """The identity of auth strategy noauth2, where the token is ``USER[:PROJECT]``.

    The user ``admin`` has the role admin. Headers can set other roles and another project. None
    without a token.
    """
    token = environ.get("HTTP_X_AUTH_TOKEN")
    if token is None:
        return None
    user_id, _, project_id = token.partition(":")
    header = environ.get("HTTP_X_ROLES")
    roles = ("admin",) if header is None and user_id == "admin" else _names(header)
    system_scope = environ.get(SYSTEM_SCOPE) or None
    if system_scope:
        project_id = ""
    return Identity(
        user_id=user_id,
        project_id=environ.get("HTTP_X_PROJECT_ID", project_id or user_id),
        roles=roles,
        system_scope=system_scope,
        domain_id=environ.get(DOMAIN) or None,
    )


def keystone(environ: Mapping[str, Any]) -> Identity | None:
    """The identity that keystonemiddleware confirmed; None if it confirmed none.

    The middleware removes these headers from the client's request before it sets them.
    """
    if environ.get("HTTP_X_IDENTITY_STATUS") != "Confirmed":
        return None
    user_id = environ.get("HTTP_X_USER_ID")
    if not user_id:
        return None
    return Identity(
        user_id=user_id,
        project_id=environ.get("HTTP_X_PROJECT_ID"),
        roles=_names(environ.get("HTTP_X_ROLES")),
        system_scope=environ.get(SYSTEM_SCOPE) or None,
        domain_id=environ.get(DOMAIN),
    )


def _names(header: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (header or "").split(",") if name.strip())
