# SPDX-License-Identifier: Apache-2.0
"""Whether the user with which nova asks Placement has the role ``service``, as keystone says."""

from __future__ import annotations

import dataclasses
import pathlib
import urllib.parse
from typing import Any

from osc_placement import errors
from osc_placement.client import service
from osc_placement.nova import configuration

#: Placement accepts a reshape from this role only.
SERVICE = "service"
_SECTION = "placement"


class KeystoneRefused(service.ServiceRefused):
    """Keystone answered with an error status."""

    service = "keystone"


@dataclasses.dataclass(frozen=True, slots=True)
class PlacementLogin:
    """``[placement]`` of a nova.conf; a domain is a name or an ID."""

    user: str
    user_domain: str
    project: str
    project_domain: str

    def matches(self, assignment: Any) -> bool:
        """Whether an item of keystone's role assignments is for this user and project."""
        project = assignment.get("scope", {}).get("project")
        return project is not None and all(
            text["name"] == name and domain in (text["domain"]["id"], text["domain"]["name"])
            for text, name, domain in (
                (assignment["user"], self.user, self.user_domain),
                (project, self.project, self.project_domain),
            )
        )


def read_login(path: pathlib.Path) -> PlacementLogin:
    """The login in a nova.conf. Errors: PlacementError names the file and what it lacks."""
    from oslo_config import cfg

    old = [cfg.DeprecatedOpt(name) for name in ("user_name", "user-name")]
    domain = (f"{kind}_domain_{field}" for kind in ("user", "project") for field in ("name", "id"))
    options = [
        cfg.StrOpt("username", deprecated_opts=old),
        cfg.StrOpt("project_name", deprecated_opts=[cfg.DeprecatedOpt("tenant_name")]),
        *map(cfg.StrOpt, domain),
    ]
    read = configuration.read(path, {_SECTION: options})
    named = {name: read[name] for name in ("username", "project_name")}
    domains = [
        read[f"{kind}_domain_id"] or read[f"{kind}_domain_name"] or "default"
        for kind in ("user", "project")
    ]
    missing = [f"[{_SECTION}]{name}" for name, value in named.items() if not value]
    if missing:
        raise errors.PlacementError(f"{path} has no {' and no '.join(missing)}")
    return PlacementLogin(named["username"], domains[0], named["project_name"], domains[1])


def has_service_role(connection: Any, login: PlacementLogin) -> bool:
    """Whether the user has the role in the project, also by a group or an implied role.

    ``connection`` is an openstacksdk connection. Requests: two GETs to keystone. Errors:
    KeystoneRefused without the right to list role assignments; ConnectionFailed.
    """

    def ask(path: str, **query: str) -> Any:
        text = f"{path}?{urllib.parse.urlencode(query)}"
        answer, _ = service.send(
            connection, "identity", "GET", text, KeystoneRefused, skip_cache=True
        )
        return answer

    with service.parsing("keystone", "/role_assignments"):
        roles = [item["id"] for item in ask("/roles", name=SERVICE)["roles"]]
        return any(
            login.matches(item)
            for role in roles
            for item in ask(
                "/role_assignments", **{"role.id": role, "effective": "1", "include_names": "1"}
            )["role_assignments"]
        )
