# SPDX-License-Identifier: Apache-2.0
"""The identity that sends a request, by its token or confirmed by keystonemiddleware.

keystonemiddleware is imported only with ``--auth keystone``: it takes half a second and the extra
``keystone``. It validates the token and sets headers, which ``keystone`` reads.
"""

from __future__ import annotations

import dataclasses
import logging
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from webob import exc

from osc_placement.errors import needs_extra
from osc_placement.model import json_text

LOG = logging.getLogger(__name__)

SYSTEM_SCOPE = "HTTP_OPENSTACK_SYSTEM_SCOPE"
DOMAIN = "HTTP_X_DOMAIN_ID"
_STATUS = "HTTP_X_IDENTITY_STATUS"


@dataclasses.dataclass(frozen=True)
class RequestIdentity:
    """Credentials as policy rules use them; ``system_scope`` is ``all`` or None.

    A token is scoped to a project, a domain, the system, or nothing.
    """

    user_id: str | None
    project_id: str | None
    roles: tuple[str, ...] = ()
    system_scope: str | None = None
    domain_id: str | None = None

    def credentials(self) -> dict[str, Any]:
        """The credentials in the form of oslo.policy."""
        return {**dataclasses.asdict(self), "roles": list(self.roles)}


def noauth2(environ: Mapping[str, Any]) -> RequestIdentity | None:
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
    return RequestIdentity(
        user_id=user_id,
        project_id=environ.get("HTTP_X_PROJECT_ID", project_id or user_id),
        roles=roles,
        system_scope=system_scope,
        domain_id=environ.get(DOMAIN) or None,
    )


def keystone(environ: Mapping[str, Any]) -> RequestIdentity | None:
    """The identity that keystonemiddleware confirmed; None if it confirmed none.

    The middleware removes these headers from the client's request before it sets them.
    """
    user_id = environ.get("HTTP_X_USER_ID")
    if environ.get(_STATUS) != "Confirmed" or not user_id:
        return None
    return RequestIdentity(
        user_id=user_id,
        project_id=environ.get("HTTP_X_PROJECT_ID"),
        roles=_names(environ.get("HTTP_X_ROLES")),
        system_scope=environ.get(SYSTEM_SCOPE) or None,
        domain_id=environ.get(DOMAIN),
    )


def _names(header: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (header or "").split(",") if name.strip())


Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]

GROUP = "keystone_authtoken"

#: Defaults of this server. Without http_connect_timeout (seconds; the middleware tries four times)
#: an unresponsive keystone would block a thread for ever; without service_type, application
#: credentials with access rules would be refused.
DEFAULTS = {"http_connect_timeout": 10, "service_type": "placement"}


class AuthConfigInvalid(Exception):
    """The middleware cannot be configured; the text has the reason and the remedy."""


def keystone_middleware(app: Wsgi, config_file: str) -> Wsgi:
    """The application behind the middleware; its root needs no token.

    The options are in ``[keystone_authtoken]`` of the file. Raises AuthConfigInvalid. Sends no
    request to keystone at start.
    """
    middleware = _middleware(app, config_file)

    def guarded(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ.get("PATH_INFO") in ("/", ""):
            return app({**environ, _STATUS: "Invalid"}, start_response)
        try:
            return middleware(environ, start_response)
        except Exception:  # the middleware expects some, but a plugin raises what it likes
            LOG.exception("token validation failed")
            answer = exc.HTTPServiceUnavailable("The identity service is unavailable.")
            return answer(environ, start_response)  # type: ignore[no-any-return]

    return guarded


def _middleware(app: Wsgi, path: str) -> Wsgi:
    with needs_extra("keystone", "--auth keystone"):
        from keystonemiddleware import auth_token
    from oslo_config import cfg

    config = cfg.ConfigOpts()
    try:
        json_text.check_file(pathlib.Path(path))
        config([], project="osc-placement", default_config_files=[path], default_config_dirs=[])
        for group, options in auth_token.list_opts():
            config.register_opts(options, group)
        for name, value in DEFAULTS.items():
            config.set_default(name, value, GROUP)
        middleware: Wsgi = auth_token.AuthProtocol(app, {"oslo_config_config": config})
        plugin = config[GROUP].auth_type or config[GROUP].auth_section
    except Exception as error:  # authentication plugins raise what they like
        raise AuthConfigInvalid(f"{path}: {error}") from error
    if not plugin:
        raise AuthConfigInvalid(
            f"{path}: [{GROUP}] has no auth_type: the server needs a service user"
            " for keystone (auth_type = password, auth_url, username, ...)"
        )
    return middleware
